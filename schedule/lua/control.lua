-- control: what operators ask of a job.
-- flags:   allow-oom
-- KEYS:    1 state
-- ARGV:    1 'pause', 'resume' or 'trigger'  2 what goes with it, as JSON  3 channel  4 job  5 life of the key in ms
-- Returns: us
-- Keeps:   ticks that came while the job was paused count as done when it goes on. A request takes the place of one that
--          nobody has taken yet.
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
if ARGV[1] == 'pause' then
  redis.call('HSET', KEYS[1], 'pause', ARGV[2])
elseif ARGV[1] == 'trigger' then
  redis.call('HSET', KEYS[1], 'trigger', us .. ' ' .. ARGV[2])
elseif redis.call('HDEL', KEYS[1], 'pause') == 1 then
  local ms = string.sub(us, 1, -4)
  if (tonumber(redis.call('HGET', KEYS[1], 'last') or '') or 0) < tonumber(ms) then
    redis.call('HSET', KEYS[1], 'last', ms)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.pcall('PUBLISH', ARGV[3], ARGV[4]) -- who does not hear it looks some seconds later
return us
