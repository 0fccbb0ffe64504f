-- release: delete the lock if it is ours, and wake the next in the line.
-- flags:   allow-oom
-- KEYS:    1 lock  2 line
-- ARGV:    1 'lk1:' owner ':'
-- Returns: 1      deleted
--          {us}   not ours (any more); the server's time, so that an undo knows what can still come
-- Keeps:   only the owner's key is deleted. A wake-up grants nothing. Places of waiters that nobody hears at
--          are passed over.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and string.sub(value, 1, #ARGV[1]) == ARGV[1] then
  redis.call('DEL', KEYS[1])
  for _ = 1, 16 do
    local next = redis.pcall('ZPOPMIN', KEYS[2])[1]
    if not next or redis.pcall('PUBLISH', next, KEYS[1]) ~= 0 then
      break
    end
  end
  return 1
end
if type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
  return value
end
local t = redis.call('TIME')
return {t[1] .. string.sub('000000' .. t[2], -6)}
