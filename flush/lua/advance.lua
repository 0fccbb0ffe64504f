-- advance: record which entries of streams are in the database, after it has committed.
-- flags:   allow-oom
-- KEYS:    1 epoch  2 cursors
-- ARGV:    1 epoch of the worker  2.. key, ID of its last entry, or '' to forget the key
-- Returns: 1 or {'fenced', epoch}
-- Keeps:   an entry before the cursor is committed.
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[1] then
  return {'fenced', epoch}
end
for i = 2, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[2], ARGV[i])
  else
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end
return 1
