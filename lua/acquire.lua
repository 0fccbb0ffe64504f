-- acquire: take a free lock that nobody waits for, or say who has it, and wait in line.
-- flags:
-- KEYS:    1 lock  2 fence counter  3 line  4 places
-- ARGV:    1 'lk1:' owner ':'  2 TTL in ms  3 label
--          4 not after: server time in us after which this request must not run, or 0
--          5 place (see join.lua); absent for who does not wait
--          6 since: server time in us from which on it waits; absent: now
-- Returns: fence                            taken; the fence is also the server's time in us
--          {fence, us}                      taken; the counter was ahead of the clock
--          {fence, us, last, others}        taken, with all fences up to last; others is 1 if somebody waits
--          {'held', value, ms left, us}     somebody has it; value is '' for a key that is no string
--          {'held', value, ms left, us, n}  the same, and n are before us in the line
--          {'full', value, ms left, us, n}  the same, and the line has n places and takes no more
--          {'late', us}                     not after has passed
-- Keeps:   who waits and lives is served before who comes: where the lock is free beside a line, because its
--          holder has expired, it goes to the first of the line, whoever asks. (Behind 1024 dead ones in a row, a
--          newcomer may be faster.)
--          A fence grows with every grant, by the counter, and by the clock where the counter was lost.
--          Asking again is harmless: a grant stays a grant and lives longer, a place stays where it is.
-- Digits are compared as they are: to make numbers of them, and to pad those that need none, would cost 1 us.
local t = redis.call('TIME')
local us = #t[2] == 6 and t[1] .. t[2] or t[1] .. string.sub('000000' .. t[2], -6)
local bound = ARGV[4]
if bound ~= '0' and (#us > #bound or #us == #bound and us > bound) then
  return {'late', us}
end

-- An error half-way, such as a right that is missing, must leave no lock whose fence the counter does not know.
-- So all is read before the first SET, and nothing but SET comes between that and the counter's.
local mine = ARGV[1]
local alone = redis.call('EXISTS', KEYS[3]) == 0
local free
if not alone then
  free = redis.call('EXISTS', KEYS[1]) == 0
elseif redis.call('SET', KEYS[1], mine .. us .. ':' .. us .. ':' .. ARGV[3], 'PX', ARGV[2], 'NX') then
  -- A number in place of '604800000' would cost 2 us: Lua prints it anew in each call.
  local last = redis.call('SET', KEYS[2], us, 'PX', '604800000', 'GET')
  if not last or #last == #us and last < us then
    return us
  end
  last = tonumber(last) or 0
  if not (last >= tonumber(us) and last < 9e15) then -- not a number of ours, be it nan
    return us
  end
  local fence = string.format('%.0f', last + 1)
  redis.call('SET', KEYS[1], mine .. fence .. ':' .. us .. ':' .. ARGV[3], 'PX', ARGV[2])
  redis.call('SET', KEYS[2], fence, 'PX', '604800000')
  return {fence, us}
end

-- include: join.lua
-- include: handoff.lua

local owner = string.sub(mine, 5, -2)
if free then
  local to, fence, last, others = handoff(counter(), owner, ARGV[3], ARGV[2])
  if not to then
    fence, last = give(owner, ARGV[3], ARGV[2], counter() + 1)
    redis.pcall('HDEL', KEYS[4], owner)
    redis.pcall('ZREM', KEYS[3], owner)
    others = redis.call('EXISTS', KEYS[3])
  end
  if not to or to == owner then
    return {fence, us, last, others}
  end
end

local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  value = ''
elseif value and string.sub(value, 1, #mine) == mine then
  -- Ours already: the line has come to us, or a client below us has sent the same request twice.
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  redis.pcall('HDEL', KEYS[4], owner)
  redis.pcall('ZREM', KEYS[3], owner)
  local fence = string.match(value, '^lk1:[^:]*:(%d+):')
  local last = string.format('%.0f', math.max(counter(), tonumber(fence)))
  return {fence, us, last, redis.call('EXISTS', KEYS[3])}
end

local word, n = 'held', nil
if ARGV[5] then
  local before, line = join(owner, ARGV[5], ARGV[3], ARGV[6])
  if not before then
    word, n = 'full', line
  else
    n = before
    local holder = line == 1 and string.match(value, '^lk1:([^:]+):')
    if holder then
      tell(string.match(ARGV[5], '^%d+:%d+:%d+:[01]:(.*)$'), holder, 'w:lk1:' .. holder .. ':' .. KEYS[1])
    end
  end
end
return {word, value or '', redis.call('PTTL', KEYS[1]), us, n}
