-- member: a process of a schedule says how it is, and hears of the others.
-- flags:   allow-oom
-- KEYS:    1 members
-- ARGV:    1 its ID, or '' for who only asks  2 how it is, as JSON; '' when it leaves  3 for how many ms its word counts
-- Returns: {us, {ID, 'us how', ...}}
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
if ARGV[1] ~= '' then
  if ARGV[2] == '' then
    redis.call('HDEL', KEYS[1], ARGV[1])
  else
    redis.call('HSET', KEYS[1], ARGV[1], us .. ' ' .. ARGV[2])
  end
end
local all, fresh = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local said = tonumber(string.match(all[i + 1], '^(%d+) ') or '') or 0
  if tonumber(us) - said > tonumber(ARGV[3]) * 1000 then
    redis.call('HDEL', KEYS[1], all[i])
  else
    fresh[#fresh + 1] = all[i]
    fresh[#fresh + 1] = all[i + 1]
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return {us, fresh}
