-- release: give up whatever an owner has: the lock, which goes to the next in the line, or a place there.
-- flags:   allow-oom
-- KEYS:    1 lock  2 fence counter  3 line  4 places
-- ARGV:    1 'lk1:' owner ':'
--          2 the last fence that was used, or '' if it is the one in the lock's value
--          3 to wait again in the same step: 'lk1:' new owner ':'  4 TTL in ms  5 label
--          6 not after, for that only, or 0  7 place (see join.lua)  8 since, as in acquire
-- Returns: 1                                it was ours; others may have it, or nobody
--          {us}                             the lock was not ours (any more); a place of that owner is gone
--          {fence, us, last, others}        given up, and taken again: it was our turn
--          {'held', value, ms left, us, n}  given up, and we wait again, with n before us
-- Keeps:   only the owner's lock is given away. Fences that the owner had in reserve and has not used are free again.
local value = redis.pcall('GET', KEYS[1])
local mine = ARGV[1]
local ours = type(value) == 'string' and string.sub(value, 1, #mine) == mine
if not ours and type(value) == 'table' and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
  return value
end
local used = ARGV[2]
if ours and used ~= '' then
  local first = string.match(value, '^lk1:[^:]*:(%d+):')
  if tonumber(used) < tonumber(first) then -- that was in a life before this one
    used = ''
  end
end
if ours and not ARGV[3] and redis.call('EXISTS', KEYS[3]) == 0 then -- nobody waits
  if used ~= '' then
    redis.call('SET', KEYS[2], used, 'PX', '604800000')
  end
  redis.call('DEL', KEYS[1])
  return 1
end
local t = redis.call('TIME')
local us = t[1] .. string.sub('000000' .. t[2], -6)
if not ours then
  redis.pcall('HDEL', KEYS[4], string.sub(mine, 5, -2))
  redis.pcall('ZREM', KEYS[3], string.sub(mine, 5, -2))
  return {us}
end

-- include: join.lua
-- include: handoff.lua

local again, before
if ARGV[3] and (ARGV[6] == '0' or tonumber(us) <= tonumber(ARGV[6])) then
  again = string.sub(ARGV[3], 5, -2)
  local ok
  ok, before = pcall(join, again, ARGV[7], ARGV[5], ARGV[8])
  if not ok then -- a line that is no line must not keep us from giving the lock up
    again = nil
  end
end
local last_used = used ~= '' and used or string.match(value, '^lk1:[^:]*:(%d+):')
local to, first, last, others, now, left = handoff(tonumber(last_used), again, ARGV[5], ARGV[4])
if not to then
  if used ~= '' then
    redis.call('SET', KEYS[2], used, 'PX', '604800000')
  end
  redis.call('DEL', KEYS[1])
  return 1
end
if not again then
  return 1
end
if to == again then
  return {first, us, last, others}
end
return {'held', now, tonumber(left), us, before}
