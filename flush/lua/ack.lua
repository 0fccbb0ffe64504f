-- ack: take marks away that are still what was read, after the database has committed.
-- flags:   allow-oom
-- KEYS:    1 epoch  2 dirty  3 versions  4 parked
-- ARGV:    1 epoch of the worker  2 server time in us when it read the marks
--          then for each key: the key, the version that was read, '' or why it is parked
-- Returns: {acknowledged, parked, changed since} or {'fenced', epoch}
-- Keeps:   a mark that is newer than what was read stays, and moves behind the keys that were dirty before:
--          a key that changes all the time starves no other.
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[1] then
  return {'fenced', epoch}
end
local acked, parked, changed = 0, 0, 0
for i = 3, #ARGV, 3 do
  local key, version, reason = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  if (redis.call('HGET', KEYS[3], key) or '') ~= version then
    redis.call('ZADD', KEYS[2], 'XX', ARGV[2], key)
    changed = changed + 1
  else
    redis.call('HDEL', KEYS[3], key)
    redis.call('ZREM', KEYS[2], key)
    if reason == '' then
      redis.call('HDEL', KEYS[4], key)
      acked = acked + 1
    else
      redis.call('HSET', KEYS[4], key, reason)
      parked = parked + 1
    end
  end
end
return {acked, parked, changed}
