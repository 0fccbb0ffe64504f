-- pick: fields of a hash; each can be taken away if it is still what was read.
-- flags:
-- KEYS:    1 hash
-- ARGV:    1 'get' or 'drop'  2.. fields; for drop each with the value that was read
-- Returns: get: a value or nil for each; drop: how many were taken away
if ARGV[1] == 'get' then
  return redis.call('HMGET', KEYS[1], unpack(ARGV, 2))
end
local dropped = 0
for i = 2, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 1] then
    dropped = dropped + redis.call('HDEL', KEYS[1], ARGV[i])
  end
end
return dropped
