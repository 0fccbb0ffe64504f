-- read: the values of keys.
-- flags:   no-writes
-- KEYS:    data keys
-- ARGV:    1 hash, string, set, list or zset  2 most bytes to return: no key is begun beyond  3.. of a hash its fields,
--          of the last three the most elements
-- Returns: for each key, until there are too many bytes, but for the first in any case: of a hash the values of the fields,
--          of a string {value}, of the others {how many, element, ...} (zset: member, score, ...), or {how many}
--          if that is more than the most; nil if the key is not there; the name of its type if it has another
local kind, left = ARGV[1], tonumber(ARGV[2])
local fields = {unpack(ARGV, 3)}
local most = tonumber(ARGV[3])

local function elements(size, command, ...)
  local n = redis.call(size, ...)
  if n == 0 then
    return false
  elseif n > most then
    return {n}
  end
  local all = command(...)
  table.insert(all, 1, n)
  return all
end

local readers = {
  hash = function(key) return redis.call('HMGET', key, unpack(fields)) end,
  string = function(key)
    local v = redis.call('GET', key)
    return v and {v}
  end,
  set = function(key)
    return elements('SCARD', function(k) return redis.call('SMEMBERS', k) end, key)
  end,
  list = function(key)
    return elements('LLEN', function(k) return redis.call('LRANGE', k, 0, -1) end, key)
  end,
  zset = function(key)
    return elements('ZCARD', function(k) return redis.call('ZRANGE', k, 0, -1, 'WITHSCORES') end, key)
  end
}

local function bytes(values)
  local sum, some = 0, false
  for i = 1, #values do
    local v = values[i]
    if v then
      some = true
      sum = sum + 16 + (type(v) == 'string' and #v or 0)
    end
  end
  return sum, some
end

local out = {}
for i = 1, #KEYS do
  if left <= 0 then
    break
  end
  -- One command for the common case; another type is found by the error, a hash that is not there by its fields.
  local ok, value = pcall(readers[kind], KEYS[i])
  if not ok then
    value = redis.call('TYPE', KEYS[i])['ok']
    if value == kind then
      return redis.error_reply('ERR the key ' .. KEYS[i] .. ' could not be read as a ' .. kind)
    end
  elseif value then
    local sum, some = bytes(value)
    if not some and redis.call('EXISTS', KEYS[i]) == 0 then
      value = false
    end
    left = left - sum
  end
  out[i] = value
end
return out
