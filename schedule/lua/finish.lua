-- finish: a run has ended.
-- flags:   allow-oom
-- KEYS:    1 state  2 runs
-- ARGV:    1 fence  2 'tick' or 'trigger'  3 the tick in ms, or the number of the request  4 outcome  5 error, or ''
--          6 '1' if the tick counts as done  7 how many runs are kept  8 life of the keys in ms
-- Returns: 1  told
--          0  another run has begun since, and has told that this one was lost
-- Keeps:   only the run that was claimed last is finished, and once: asking again is harmless.
local id = ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' '
local run = redis.call('HGET', KEYS[1], 'run') or ''
if string.sub(run, 1, #id) ~= id then
  return redis.call('HGET', KEYS[1], 'ended') == id and 1 or 0
end
local t = redis.call('TIME')
local head, who = string.match(run, '^(%d+ %a+ %d+ %d+) (.*)$')
local entry = head .. ' ' .. t[1] .. string.sub('000000' .. t[2], -6) .. ' ' .. ARGV[4] .. ' ' .. who
if ARGV[5] ~= '' then
  entry = entry .. '\n' .. ARGV[5]
end
redis.call('LPUSH', KEYS[2], entry)
redis.call('LTRIM', KEYS[2], 0, ARGV[7] - 1)
redis.call('PEXPIRE', KEYS[2], ARGV[8])
if ARGV[2] == 'tick' and ARGV[6] == '1' and (tonumber(redis.call('HGET', KEYS[1], 'last') or '') or 0) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'last', ARGV[3])
end
redis.call('HSET', KEYS[1], 'ended', id)
redis.call('HDEL', KEYS[1], 'run', 'lost')
redis.call('PEXPIRE', KEYS[1], ARGV[8])
return 1
