-- join: what is kept of a job, for a process that runs it.
-- flags:
-- KEYS:    1 state  2 runs
-- ARGV:    1 when it runs, in words  2 '1' if the process begins to run it  3 life of the keys in ms
-- Returns: {us, {field, value, ...}}
-- Keeps:   a job that is new, or whose ticks are others now, has nothing to catch up: all ticks before now count as done.
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
local ms = string.sub(us, 1, -4)
local last = tonumber(redis.call('HGET', KEYS[1], 'last') or '')
if not last or ARGV[2] == '1' and redis.call('HGET', KEYS[1], 'when') ~= ARGV[1] then
  redis.call('HSET', KEYS[1], 'when', ARGV[1])
  if not last or last < tonumber(ms) then
    redis.call('HSET', KEYS[1], 'last', ms)
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {us, redis.call('HGETALL', KEYS[1])}
