-- rewind: have entries of streams read once more.
-- flags:   allow-oom
-- KEYS:    1 cursors
-- ARGV:    key, ID of the entry before, ...
-- Returns: how many cursors were moved
-- Keeps:   a cursor only goes back.
local function parts(id)
  local ms, n = string.match(id, '^(%d+)-(%d+)$')
  return ms or '0', n or '0'
end
local function less(a, b) -- of digits without leading zeros, which may be more than a number holds
  return #a < #b or #a == #b and a < b
end
local moved = 0
for i = 1, #ARGV, 2 do
  local now = redis.call('HGET', KEYS[1], ARGV[i])
  if now then
    local ms, n = parts(ARGV[i + 1])
    local nowms, nown = parts(now)
    if less(ms, nowms) or ms == nowms and less(n, nown) then
      redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
      moved = moved + 1
    end
  end
end
return moved
