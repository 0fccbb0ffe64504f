-- database: which database a job is flushed into.
-- flags:   allow-oom
-- KEYS:    1 control
-- ARGV:    1 identity of the worker's database  2 '1' if it takes the place of another one
-- Returns: the identity that stands
-- Keeps:   two databases are never written to by turns, unless somebody says so.
local known = redis.call('HGET', KEYS[1], 'database')
if known and ARGV[2] ~= '1' then
  return known
end
redis.call('HSET', KEYS[1], 'database', ARGV[1])
return ARGV[1]
