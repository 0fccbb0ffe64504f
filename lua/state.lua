-- state: who holds these locks.
-- flags:   no-writes
-- KEYS:    1..n locks
-- Returns: {us, value 1, ms left 1, value 2, ...}; value is nil for a free lock, '' for a key that is no string
local t = redis.call('TIME')
local out = {t[1] .. string.sub('000000' .. t[2], -6)}
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      return value
    end
    value = ''
  end
  out[2 * i] = value
  out[2 * i + 1] = redis.call('PTTL', KEYS[i])
end
return out
