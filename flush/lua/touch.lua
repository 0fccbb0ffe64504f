-- touch: mark keys that nobody has changed, to flush them again.
-- flags:
-- KEYS:    1 dirty  2 versions  3 clock  4 digests  5.. data keys
-- ARGV:    for each key: 'U' if it is there, 'D' if it is not, as a delete; 'u' in any case; 'd' in any case, as a delete
--          if it is not there
-- Returns: how many were marked
-- Keeps:   a mark that is there stays as it is: a delete that is recorded does not become a new value.
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[3]) or 0) or 0
local marked = 0
for i = 5, #KEYS do
  local key, op = KEYS[i], ARGV[i - 4]
  local there = redis.call('EXISTS', key) == 1
  local fits = op == 'u' or op == 'd' or there == (op == 'U')
  if op == 'd' and there then
    op = 'u'
  end
  if fits and redis.call('HEXISTS', KEYS[2], key) == 0 and not redis.call('ZSCORE', KEYS[1], key) then
    last = math.max(us, last + 1)
    local version = string.format('%.0f', last)
    redis.call('HSET', KEYS[2], key, version .. string.upper(op))
    redis.call('ZADD', KEYS[1], 'NX', version, key)
    marked = marked + 1
  end
  if op == 'D' and fits then
    redis.call('HDEL', KEYS[4], key)
  end
end
if marked > 0 then
  redis.call('SET', KEYS[3], string.format('%.0f', last))
end
return marked
