-- look: how a job is.
-- flags:   no-writes
-- KEYS:    1 lock  2 state  3 runs
-- ARGV:    1 how many runs
-- Returns: {us, value of the lock or nil, {field, value, ...}, {run, ...} with the latest first}
local t = redis.call('TIME')
return {
  t[1] .. string.sub('000000' .. t[2], -6),
  redis.call('GET', KEYS[1]),
  redis.call('HGETALL', KEYS[2]),
  redis.call('LRANGE', KEYS[3], 0, ARGV[1] - 1)
}
