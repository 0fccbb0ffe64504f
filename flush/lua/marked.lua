-- marked: what is known of keys beside their values.
-- flags:   no-writes
-- KEYS:    1 dirty  2 versions  3 parked  4 changed  5 deleted  6.. data keys
-- ARGV:
-- Returns: for each key the sum of 1 it is there, 2 it is marked or put aside, 4 it is parked
local out = {}
for i = 6, #KEYS do
  local key = KEYS[i]
  local sum = redis.call('EXISTS', key)
  if redis.call('HEXISTS', KEYS[2], key) == 1 or redis.call('ZSCORE', KEYS[1], key)
    or redis.call('SISMEMBER', KEYS[4], key) == 1 or redis.call('SISMEMBER', KEYS[5], key) == 1 then
    sum = sum + 2
  end
  out[i - 5] = sum + 4 * redis.call('HEXISTS', KEYS[3], key)
end
return out
