-- break: delete a lock that has exactly the fence that was looked at, and wake the next in the line.
-- flags:   allow-oom
-- KEYS:    1 lock  2 line
-- ARGV:    1 fence
-- Returns: 1                     deleted
--          {value, ms left, us}  it has another holder, or none: value is nil when it is free, '' when it is no string
-- Keeps:   a foreign value is never deleted. Places of waiters that nobody hears at are passed over.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  value = ''
elseif value and string.match(value, '^lk1:[^:]+:([1-9]%d*):[1-9]%d*:') == ARGV[1] then
  redis.call('DEL', KEYS[1])
  for _ = 1, 16 do
    local next = redis.pcall('ZPOPMIN', KEYS[2])[1]
    if not next or redis.pcall('PUBLISH', next, KEYS[1]) ~= 0 then
      break
    end
  end
  return 1
end
local t = redis.call('TIME')
return {value, redis.call('PTTL', KEYS[1]), t[1] .. string.sub('000000' .. t[2], -6)}
