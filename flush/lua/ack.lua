-- ack: take marks away that are still what was read, after the database has committed.
-- flags:   allow-oom
-- KEYS:    1 epoch  2 dirty  3 versions  4 parked
-- ARGV:    1 epoch of the worker  2 server time in us when it read the marks
--          then for each key: the key, the version that was read, '' or why it is parked, as JSON
-- Returns: {acknowledged, parked, changed since} or {'fenced', epoch}
-- Keeps:   a mark that is newer than what was read stays, and moves behind the keys that were dirty before:
--          a key that changes all the time starves no other. A parked key has 'times us-first us-last why'.
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[1] then
  return {'fenced', epoch}
end
if #ARGV < 5 then
  return {0, 0, 0}
end
local keys = {}
for i = 3, #ARGV, 3 do
  keys[#keys + 1] = ARGV[i]
end
local versions = redis.call('HMGET', KEYS[3], unpack(keys))
local some = redis.call('HLEN', KEYS[4]) > 0
local done, parked, changed = {}, 0, 0
for i = 1, #keys do
  local key, version, why = keys[i], ARGV[3 * i + 1], ARGV[3 * i + 2]
  if (versions[i] or '') ~= version then
    redis.call('ZADD', KEYS[2], 'XX', ARGV[2], key)
    changed = changed + 1
  else
    done[#done + 1] = key
    if why ~= '' then
      local times, first = string.match(redis.call('HGET', KEYS[4], key) or '', '^(%d+) (%d+) ')
      local t = redis.call('TIME')
      local us = t[1] .. string.sub('000000' .. t[2], -6)
      redis.call('HSET', KEYS[4], key, string.format('%d %s %s %s', (times or 0) + 1, first or us, us, why))
      parked = parked + 1
    elseif some then
      redis.call('HDEL', KEYS[4], key)
    end
  end
end
if #done > 0 then
  redis.call('HDEL', KEYS[3], unpack(done))
  redis.call('ZREM', KEYS[2], unpack(done))
end
return {#done - parked, parked, changed}
