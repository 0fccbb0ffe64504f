-- leave: take a place out of the line; if the lock is free, wake the next one instead.
-- flags:   allow-oom
-- KEYS:    1 lock  2 line
-- ARGV:    1 channel
-- Returns: 1 woke another | 0
-- Keeps:   a wake-up that reached somebody who had stopped waiting is passed on, also over places of waiters
--          that nobody hears at.
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
for _ = 1, 16 do
  local next = redis.call('ZPOPMIN', KEYS[2])[1]
  if not next then
    return 0
  end
  if redis.pcall('PUBLISH', next, KEYS[1]) ~= 0 then
    return 1
  end
end
return 0
