-- status: how much waits to be flushed, and how the workers are.
-- flags:   no-writes
-- KEYS:    1 dirty  2 parked  3 epoch  4 changed  5 deleted  6 control  7 members  8.. where marks are put aside
-- ARGV:
-- Returns: {us, dirty keys, us when the oldest became dirty or nil, parked keys, epoch or nil, members of changed and
--          deleted, {control field, value, ...}, {ID, 'us how', ...}, {how many, us of the oldest or nil for each of 8..}}
local function oldest(key)
  return redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')[2] or false
end
local t = redis.call('TIME')
local aside = {}
for i = 8, #KEYS do
  aside[#aside + 1] = redis.call('ZCARD', KEYS[i])
  aside[#aside + 1] = oldest(KEYS[i])
end
return {
  t[1] .. string.sub('000000' .. t[2], -6),
  redis.call('ZCARD', KEYS[1]),
  oldest(KEYS[1]),
  redis.call('HLEN', KEYS[2]),
  redis.call('GET', KEYS[3]),
  redis.call('SCARD', KEYS[4]) + redis.call('SCARD', KEYS[5]),
  redis.call('HGETALL', KEYS[6]),
  redis.call('HGETALL', KEYS[7]),
  aside
}
