-- control: what operators, and workers, tell the workers of a job.
-- flags:   allow-oom
-- KEYS:    1 control
-- ARGV:    field, value, ...; the value '' takes the field away
-- Returns: how many fields there are then
for i = 1, #ARGV, 2 do
  if ARGV[i + 1] == '' then
    redis.call('HDEL', KEYS[1], ARGV[i])
  else
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
  end
end
return redis.call('HLEN', KEYS[1])
