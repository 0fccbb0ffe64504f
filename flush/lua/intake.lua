-- intake: give versions to the keys that an application has put into changed or deleted in a transaction of its own.
-- flags:   allow-oom
-- KEYS:    1 dirty  2 versions  3 clock  4 changed  5 deleted
-- ARGV:    1 how many of each set
-- Returns: how many keys were marked
-- Keeps:   taken out and marked in one step. A key that is there has a new value, whichever set it was in; one
--          that is not there is deleted only if it was in deleted, or was marked so before.
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local last = tonumber(redis.call('GET', KEYS[3]) or 0) or 0
local function mark(key, op)
  last = math.max(us, last + 1)
  local version = string.format('%.0f', last)
  redis.call('HSET', KEYS[2], key, version .. op)
  redis.call('ZADD', KEYS[1], 'NX', version, key)
end
-- gone reports whether a key is deleted, and not only not there.
local function gone(key, said)
  return redis.call('EXISTS', key) == 0
    and (said or string.sub(redis.call('HGET', KEYS[2], key) or '', -1) == 'D')
end
local deleted = redis.call('SPOP', KEYS[5], ARGV[1])
for i = 1, #deleted do
  redis.call('SREM', KEYS[4], deleted[i])
  mark(deleted[i], gone(deleted[i], true) and 'D' or 'U')
end
local changed = redis.call('SPOP', KEYS[4], ARGV[1])
for i = 1, #changed do
  local said = redis.call('SREM', KEYS[5], changed[i]) == 1
  mark(changed[i], gone(changed[i], said) and 'D' or 'U')
end
if #deleted + #changed > 0 then
  redis.call('SET', KEYS[3], string.format('%.0f', last))
end
return #deleted + #changed
