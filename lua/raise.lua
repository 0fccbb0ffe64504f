-- raise: give a lock that is ours a fence above one that was seen elsewhere.
-- flags:
-- KEYS:    1 lock  2 fence counter
-- ARGV:    1 'lk1:' owner ':'  2 the fence that was seen, at most 2^52
-- Returns: the new fence, or 0 when the lock is not ours (any more)
-- Keeps:   the counter is raised before the lock's value; the lock's time left does not change.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
  return value
end
if type(value) ~= 'string' or string.sub(value, 1, #ARGV[1]) ~= ARGV[1] then
  return 0
end
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[2]) or 0) or 0
if not (last < 9e15) then -- not a number of ours
  last = 0
end
local fence = string.format('%.0f', math.max(last + 1, tonumber(ARGV[2]) + 1, us))
redis.call('SET', KEYS[2], fence, 'PX', '604800000')
redis.call('SET', KEYS[1], ARGV[1] .. fence .. string.match(value, '^lk1:[^:]*:%d+(:.*)$'), 'KEEPTTL')
return fence
