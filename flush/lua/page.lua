-- page: the keys that have been dirty for longest, with their versions, and what operators ask for.
-- flags:   no-writes
-- KEYS:    1 dirty  2 versions  3 changed  4 deleted  5 parked  6 control  7.. where marks are put aside
-- ARGV:    1 how many keys to leave out at the head: those that are being written  2 how many to return
-- Returns: {us, members of changed and deleted, of parked, {members of each of 7..}, {control field, value, ...},
--          {key, ...}, {version or nil, ...}}; a version is nil for a key that was marked without one
local t = redis.call('TIME')
local aside = {}
for i = 7, #KEYS do
  aside[i - 6] = redis.call('ZCARD', KEYS[i])
end
local keys = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + ARGV[2] - 1)
local versions = {}
if #keys > 0 then
  versions = redis.call('HMGET', KEYS[2], unpack(keys))
end
return {
  t[1] .. string.sub('000000' .. t[2], -6),
  redis.call('SCARD', KEYS[3]) + redis.call('SCARD', KEYS[4]),
  redis.call('HLEN', KEYS[5]),
  aside,
  redis.call('HGETALL', KEYS[6]),
  keys,
  versions
}
