-- page: the keys that have been dirty for longest, with their versions.
-- flags:   no-writes
-- KEYS:    1 dirty  2 versions
-- ARGV:    1 how many
-- Returns: {us, key, version, key, version, ...}; a version is '' for a key that was marked without one
local t = redis.call('TIME')
local out = {t[1] .. string.sub('000000' .. t[2], -6)}
local keys = redis.call('ZRANGE', KEYS[1], 0, tonumber(ARGV[1]) - 1)
for i = 1, #keys do
  out[2 * i] = keys[i]
  out[2 * i + 1] = redis.call('HGET', KEYS[2], keys[i]) or ''
end
return out
