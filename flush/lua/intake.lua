-- intake: give versions to the keys that an application has put into changed or deleted in a transaction of its own.
-- flags:
-- KEYS:    1 dirty  2 versions  3 clock  4 changed  5 deleted
-- ARGV:    1 how many of each set
-- Returns: how many keys were marked
-- Keeps:   taken out and marked in one step. A key that is there has a new value, whichever set it was in; one
--          that is not there is deleted only if it was in deleted: so the last word is the key's own state.
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[3]) or 0) or 0
local function mark(key, op)
  last = math.max(us, last + 1)
  local version = string.format('%.0f', last)
  redis.call('HSET', KEYS[2], key, version .. op)
  redis.call('ZADD', KEYS[1], 'NX', version, key)
end
local deleted = redis.call('SPOP', KEYS[5], ARGV[1])
for i = 1, #deleted do
  redis.call('SREM', KEYS[4], deleted[i])
  mark(deleted[i], redis.call('EXISTS', deleted[i]) == 1 and 'U' or 'D')
end
local changed = redis.call('SPOP', KEYS[4], ARGV[1])
for i = 1, #changed do
  local gone = redis.call('SREM', KEYS[5], changed[i]) == 1 and redis.call('EXISTS', changed[i]) == 0
  mark(changed[i], gone and 'D' or 'U')
end
if #deleted + #changed > 0 then
  redis.call('SET', KEYS[3], string.format('%.0f', last))
end
return #deleted + #changed
