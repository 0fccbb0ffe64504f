-- break: end the hold that has exactly the fence that was looked at; the next in the line gets the lock.
-- flags:   allow-oom
-- KEYS:    1 lock  2 fence counter  3 line  4 places
-- ARGV:    1 fence
-- Returns: 1                     ended
--          {value, ms left, us}  it has another holder, or none: value is nil when it is free, '' when it is no string
-- Keeps:   a foreign value is never deleted.
local value = redis.pcall('GET', KEYS[1])
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  value = ''
elseif value and string.match(value, '^lk1:[^:]+:([1-9]%d*):[1-9]%d*:') == ARGV[1] then
  -- include: handoff.lua
  if not handoff(math.max(counter(), tonumber(ARGV[1]))) then
    redis.call('DEL', KEYS[1])
  end
  return 1
end
return {value, redis.call('PTTL', KEYS[1]), us}
