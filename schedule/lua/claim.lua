-- claim: begin a run of a job, for who holds its lock.
-- flags:
-- KEYS:    1 lock  2 state  3 runs
-- ARGV:    1 owner  2 fence  3 'tick' or 'trigger'  4 the tick in ms, or the number of the request
--          5 'leader' or 'guarded'  6 how long in ms the job rests from the start of a run  7 how far in ms a tick may be ahead
--          of the server's clock  8 who  9 how many runs are kept  10 life of the keys in ms  11 after how many runs in a row
--          that nobody has finished a tick counts as done
-- Returns: {'run', us}      it is to run, and has begun then
--          {'done'}         it has been run already
--          {'paused'}       ticks are not run
--          {'early', ms}    it is too early by that
--          {'lost'}         the lock on the server is not the caller's
-- Keeps:   a tick that is not later than the last one is never run again. A guarded tick is the last one from its claim on, that of
--          a leader when its run is finished.
--          Asking again is harmless. A run that was not finished is told by the next one.
local held = string.match(redis.call('GET', KEYS[1]) or '', '^lk1:([^:]+):')
if not held or held ~= ARGV[1] and string.sub(ARGV[1], 1, #held + 1) ~= held .. '.' then
  return {'lost'}
end
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
local ms = tonumber(string.sub(us, 1, -4))
local run = redis.call('HGET', KEYS[2], 'run')
local id = ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' '
if run and string.sub(run, 1, #id) == id then
  return {'run', string.match(run, '^%d+', #id + 1)}
end

local isTick = ARGV[3] == 'tick'
if isTick then
  if redis.call('HEXISTS', KEYS[2], 'pause') == 1 then
    return {'paused'}
  end
  if (tonumber(redis.call('HGET', KEYS[2], 'last') or '') or 0) >= tonumber(ARGV[4]) then
    return {'done'}
  end
else
  local asked = redis.call('HGET', KEYS[2], 'trigger') or ''
  if string.sub(asked, 1, #ARGV[4] + 1) ~= ARGV[4] .. ' ' then
    return {'done'}
  end
end
local started = tonumber(redis.call('HGET', KEYS[2], 'started') or '') or 0
local early = isTick and tonumber(ARGV[4]) - tonumber(ARGV[7]) - ms or 0
if started <= ms then -- else the clock has gone back
  early = math.max(early, started + tonumber(ARGV[6]) - ms)
end
if early > 0 then
  return {'early', string.format('%.0f', early)}
end

local head, who = string.match(run or '', '^(%d+ %a+ %d+ %d+) (.*)$')
if head then -- its process has died, or has lost the lock
  redis.call('LPUSH', KEYS[3], head .. ' ' .. us .. ' lost ' .. who)
  redis.call('LTRIM', KEYS[3], 0, ARGV[9] - 1)
  redis.call('PEXPIRE', KEYS[3], ARGV[10])
  redis.call('HDEL', KEYS[2], 'run')
  if isTick and ARGV[5] == 'leader' and redis.call('HINCRBY', KEYS[2], 'lost', 1) >= tonumber(ARGV[11]) then
    redis.call('HDEL', KEYS[2], 'lost')
    redis.call('HSET', KEYS[2], 'last', ARGV[4])
    return {'done'}
  end
end
redis.call('HSET', KEYS[2], 'run', id .. us .. ' ' .. ARGV[8], 'started', string.sub(us, 1, -4))
if not isTick then
  redis.call('HDEL', KEYS[2], 'trigger')
elseif ARGV[5] == 'guarded' then
  redis.call('HSET', KEYS[2], 'last', ARGV[4])
end
redis.call('PEXPIRE', KEYS[2], ARGV[10])
return {'run', us}
