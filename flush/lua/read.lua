-- read: fields of hashes.
-- flags:   no-writes
-- KEYS:    data keys
-- ARGV:    fields
-- Returns: for each key its values, in the order of the fields; nil if the key is not there; the name of
--          its type if it is no hash
local out = {}
for i = 1, #KEYS do
  local kind = redis.call('TYPE', KEYS[i])['ok']
  if kind == 'hash' then
    out[i] = redis.call('HMGET', KEYS[i], unpack(ARGV))
  elseif kind == 'none' then
    out[i] = false
  else
    out[i] = kind
  end
end
return out
