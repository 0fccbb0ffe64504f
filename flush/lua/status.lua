-- status: how much waits to be flushed.
-- flags:   no-writes
-- KEYS:    1 dirty  2 parked  3 epoch
-- Returns: {us, dirty keys, us when the oldest became dirty or nil, parked keys, epoch or nil}
local t = redis.call('TIME')
local oldest = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or false
return {
  t[1] .. string.sub('000000' .. t[2], -6),
  redis.call('ZCARD', KEYS[1]),
  oldest,
  redis.call('HLEN', KEYS[2]),
  redis.call('GET', KEYS[3])
}
