-- digest: compare keys with what they were when they were looked at last, and mark those that differ.
-- flags:
-- KEYS:    1 dirty  2 versions  3 clock  4 digests  5.. data keys
-- ARGV:    1 hash, string, set, list, zset or stream  2 most elements of a set, list or zset  3.. of a hash its fields
-- Returns: {marked, the same, not there}
-- Keeps:   the digest and the mark are one step. A mark that is there stays as it is: its value is yet to be read.
local kind, most = ARGV[1], tonumber(ARGV[2])
local fields = {unpack(ARGV, 3)}
local readers = {
  hash = function(key) return redis.call('HMGET', key, unpack(fields)) end,
  string = function(key) return {redis.call('GET', key)} end,
  set = function(key)
    local all = redis.call('SMEMBERS', key)
    table.sort(all)
    return all
  end,
  list = function(key) return redis.call('LRANGE', key, 0, most) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, most, 'WITHSCORES') end,
  stream = function(key)
    local last = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1)
    return {last[1] and last[1][1] or '', redis.call('XLEN', key)}
  end
}
local sizes = {set = 'SCARD', list = 'LLEN', zset = 'ZCARD'}

local function digest(key)
  if sizes[kind] then
    local n = redis.call(sizes[kind], key)
    if n > most then
      return 'too many: ' .. n
    end
  end
  local values, parts = readers[kind](key), {}
  for i = 1, #values do
    local v = values[i]
    parts[i] = v and #tostring(v) .. ':' .. tostring(v) or '-'
  end
  return string.sub(redis.sha1hex(table.concat(parts)), 1, 20)
end

local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[3]) or 0) or 0
local marked, same, gone = 0, 0, 0
for i = 5, #KEYS do
  local key = KEYS[i]
  local found = redis.call('TYPE', key)['ok']
  if found == 'none' then
    gone = gone + 1
  else
    local now = found == kind and digest(key) or 'a ' .. found -- which is parked when it is read
    if redis.call('HGET', KEYS[4], key) == now then
      same = same + 1
    else
      redis.call('HSET', KEYS[4], key, now)
      if redis.call('HEXISTS', KEYS[2], key) == 0 then
        last = math.max(us, last + 1)
        local version = string.format('%.0f', last)
        redis.call('HSET', KEYS[2], key, version .. 'U')
        redis.call('ZADD', KEYS[1], 'NX', version, key)
      end
      marked = marked + 1
    end
  end
end
if marked > 0 then
  redis.call('SET', KEYS[3], string.format('%.0f', last))
end
return {marked, same, gone}
