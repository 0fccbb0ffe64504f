-- renew: let locks that are ours live for at least their TTL from now.
-- flags:   allow-oom
-- KEYS:    1..n locks (one server; on a cluster one key a call)
-- ARGV:    2i-1 'lk1:' owner ':'  2i TTL in ms, for each key
-- Returns: {1 renewed | 0 not ours (any more), ...}
-- Keeps:   a key that is gone is never made again, and a life is never shortened: requests may run late
--          and in any order.
local out = {}
for i = 1, #KEYS do
  local mine, ttl = ARGV[2 * i - 1], ARGV[2 * i]
  local value = redis.pcall('GET', KEYS[i])
  out[i] = 0
  if type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  if type(value) == 'string' and string.sub(value, 1, #mine) == mine then
    if redis.call('PTTL', KEYS[i]) < tonumber(ttl) then
      redis.call('PEXPIRE', KEYS[i], ttl)
    end
    out[i] = 1
  end
end
return out
