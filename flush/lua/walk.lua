-- walk: some of the keys of the database.
-- flags:   no-writes
-- KEYS:
-- ARGV:    1 cursor, '0' at first  2 glob pattern  3 about how many slots to look into
-- Returns: {next cursor, '0' at the end, how many keys there are in all, {key, ...}}
local found = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
return {found[1], redis.call('DBSIZE'), found[2]}
