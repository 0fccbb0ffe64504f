-- fields: some of the fields of a hash, with their values.
-- flags:   no-writes
-- KEYS:    1 hash
-- ARGV:    1 cursor, '0' at first  2 about how many
-- Returns: {next cursor, '0' at the end, {field, value, ...}}
return redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
