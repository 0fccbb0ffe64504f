-- hold: put marks aside that can't be flushed now, so that they are not in the way of others.
-- flags:   allow-oom
-- KEYS:    1 epoch  2 dirty  3 versions  4 where to put them
-- ARGV:    1 epoch of the worker  2.. the key, the version that was read
-- Returns: how many were put aside, or {'fenced', epoch}
-- Keeps:   the mark and its age. One that has changed meanwhile stays.
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[1] then
  return {'fenced', epoch}
end
local held = 0
for i = 2, #ARGV, 2 do
  local since = redis.call('ZSCORE', KEYS[2], ARGV[i])
  if since and (redis.call('HGET', KEYS[3], ARGV[i]) or '') == ARGV[i + 1] then
    redis.call('ZADD', KEYS[4], 'NX', since, ARGV[i]) -- what is there already is older
    redis.call('ZREM', KEYS[2], ARGV[i])
    held = held + 1
  end
end
return held
