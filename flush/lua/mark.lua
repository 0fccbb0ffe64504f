-- mark: run one write command on a key, and mark the key as changed, atomically.
-- flags:
-- KEYS:    1 data key  2 dirty  3 versions  4 clock
-- ARGV:    1 'U' the key has a new value, 'D' the key is deleted and so is its row
--          2 the command, such as HSET  3.. its arguments after the key
-- Returns: what the command returned
-- Keeps:   every change has a version of its own, and versions grow. The mark comes first: if the command fails, the
--          key is flushed once too often; the other way round a change would be lost. It says deleted only if the
--          key is not there afterwards: because of 'D', because the command took its last element or field, or
--          because it was marked so and the command has changed nothing.
if ARGV[1] ~= 'U' and ARGV[1] ~= 'D' then
  return redis.error_reply("ERR the first argument of mark is U or D, and nothing was written")
end
local key = KEYS[1]
local deleted = ARGV[1] == 'D' or redis.call('EXISTS', key) == 1
  or string.sub(redis.call('HGET', KEYS[3], key) or '', -1) == 'D'
local t = redis.call('TIME')
local us = tonumber(t[1]) * 1000000 + tonumber(t[2])
local version = string.format('%.0f', math.max(us, (tonumber(redis.call('GET', KEYS[4]) or 0) or 0) + 1))
redis.call('SET', KEYS[4], version)
redis.call('HSET', KEYS[3], key, version .. 'U')
redis.call('ZADD', KEYS[2], 'NX', version, key)
local reply = redis.call(ARGV[2], key, unpack(ARGV, 3))
if deleted and redis.call('EXISTS', key) == 0 then
  redis.call('HSET', KEYS[3], key, version .. 'D')
end
return reply
