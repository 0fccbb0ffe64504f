-- epoch: install the epoch of a new worker, which must be larger than any before.
-- flags:   allow-oom
-- KEYS:    1 epoch
-- ARGV:    1 epoch
-- Returns: 1        installed
--          epoch    one that is not smaller stands, or whatever else the key has
-- Keeps:   no two workers have one epoch, also when the database has begun to count anew.
local current = redis.call('GET', KEYS[1])
if current and (tonumber(current) or math.huge) >= tonumber(ARGV[1]) then
  return current
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
