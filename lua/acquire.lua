-- acquire: take a free lock, or say who has it.
-- flags:
-- KEYS:    1 lock  2 fence counter  3 line
-- ARGV:    1 'lk1:' owner ':'  2 TTL in ms  3 label
--          4 not after: server time in us after which this request must not run, or 0
--          5 channel to wake when the lock is free, or '' to leave no place in the line
-- Returns: fence                            taken; the fence is also the server's time in us
--          {fence, us}                      taken; the counter was ahead of the clock
--          {'held', value, ms left, us}     somebody has it; value is '' for a key that is no string
--          {'late', us}                     not after has passed
-- Keeps:   a fence grows with every grant, by the counter, and by the clock where the counter was lost.
--          Nothing is written unless the lock is taken, but for the place in the line. Who asks again keeps
--          the place.
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
if ARGV[4] ~= '0' and tonumber(us) > tonumber(ARGV[4]) then
  return {'late', us}
end

local mine = ARGV[1]
if redis.call('SET', KEYS[1], mine .. us .. ':' .. us .. ':' .. ARGV[3], 'PX', ARGV[2], 'NX') then
  if ARGV[5] ~= '' then
    redis.call('ZREM', KEYS[3], ARGV[5])
  end
  -- A number in place of '604800000' would cost 2 us: Lua prints it anew in each call.
  local last = redis.call('SET', KEYS[2], us, 'PX', '604800000', 'GET')
  if not last or #last == #us and last < us then
    return us
  end
  last = tonumber(last) or 0
  if not (last >= tonumber(us) and last < 9e15) then -- not a number of ours, be it nan
    return us
  end
  local fence = string.format('%.0f', last + 1)
  redis.call('SET', KEYS[1], mine .. fence .. ':' .. us .. ':' .. ARGV[3], 'PX', ARGV[2])
  redis.call('SET', KEYS[2], fence, 'PX', '604800000')
  return {fence, us}
end

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  value = ''
elseif value and string.sub(value, 1, #mine) == mine then
  -- The same request a second time: a client below us has sent it again.
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return {string.match(value, '^lk1:[^:]*:(%d+):'), us}
end
if ARGV[5] ~= '' then
  redis.call('ZADD', KEYS[3], 'NX', us, ARGV[5])
  redis.call('PEXPIRE', KEYS[3], 60000)
end
return {'held', value or '', redis.call('PTTL', KEYS[1]), us}
