-- unhold: bring marks back that were put aside.
-- flags:   allow-oom
-- KEYS:    1 dirty  2 where they are
-- ARGV:    1 how many
-- Returns: how many are left there
-- Keeps:   the age of each.
local marks = redis.call('ZRANGE', KEYS[2], 0, ARGV[1] - 1, 'WITHSCORES')
for i = 1, #marks, 2 do
  redis.call('ZADD', KEYS[1], marks[i + 1], marks[i])
  redis.call('ZREM', KEYS[2], marks[i])
end
return redis.call('ZCARD', KEYS[2])
