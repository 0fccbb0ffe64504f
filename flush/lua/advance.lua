-- advance: record which entries of streams are in the database, after it has committed.
-- flags:   allow-oom
-- KEYS:    1 epoch  2 cursors
-- ARGV:    1 epoch of the worker  2.. key, cursor that it read from, '' for none, ID of the last entry that is in the
--          database, '' to forget the key
-- Returns: 1 or {'fenced', epoch}
-- Keeps:   every entry before the cursor is committed or parked. A cursor that was moved since it was read stays.
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[1] then
  return {'fenced', epoch}
end
for i = 2, #ARGV, 3 do
  if ARGV[i + 2] == '' then
    redis.call('HDEL', KEYS[2], ARGV[i])
  elseif (redis.call('HGET', KEYS[2], ARGV[i]) or '') == ARGV[i + 1] then
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 2])
  end
end
return 1
