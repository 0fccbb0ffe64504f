-- epoch: install the epoch of a new worker, unless a larger one is there.
-- flags:
-- KEYS:    1 epoch
-- ARGV:    1 epoch
-- Returns: the epoch that stands now, or what the key has if that is no number
local current = redis.call('GET', KEYS[1])
if current and (tonumber(current) or math.huge) > tonumber(ARGV[1]) then
  return current
end
redis.call('SET', KEYS[1], ARGV[1])
return ARGV[1]
