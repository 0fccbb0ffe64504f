-- ack: take marks away that are still what was read, after the database has committed.
-- flags:   allow-oom
-- KEYS:    1 epoch  2 dirty  3 versions  4 parked  5.. where marks are put aside
-- ARGV:    1 epoch of the worker  2 server time in us when it read the marks
--          then for each key: the key, the version that was read, '' or why it is parked, as JSON
-- Returns: {acknowledged, parked, changed since} or {'fenced', epoch}
-- Keeps:   a mark that is newer than what was read stays, and moves behind the keys that were dirty before:
--          a key that changes all the time starves no other. A parked key has 'times us-first us-last why'.
local epoch = redis.call('GET', KEYS[1])
if epoch ~= ARGV[1] then
  return {'fenced', epoch}
end
local some = redis.call('HLEN', KEYS[4]) > 0
local done, parked, changed = 0, 0, 0

local function park(key, why)
  local times, first = string.match(redis.call('HGET', KEYS[4], key) or '', '^(%d+) (%d+) ')
  local t = redis.call('TIME')
  local us = t[1] .. string.sub('000000' .. t[2], -6)
  redis.call('HSET', KEYS[4], key, string.format('%d %s %s ', (times or 0) + 1, first or us, us) .. why)
end

-- ack deals with the keys of ARGV[first..last].
local function ack(first, last)
  local keys, gone = {}, {}
  for i = first, last, 3 do
    keys[#keys + 1] = ARGV[i]
  end
  local versions = redis.call('HMGET', KEYS[3], unpack(keys))
  for i = 1, #keys do
    local key, version, why = keys[i], ARGV[first + 3 * i - 2], ARGV[first + 3 * i - 1]
    if (versions[i] or '') ~= version then
      redis.call('ZADD', KEYS[2], 'XX', ARGV[2], key)
      changed = changed + 1
    else
      gone[#gone + 1] = key
      if why ~= '' then
        park(key, why)
        parked = parked + 1
      elseif some then
        redis.call('HDEL', KEYS[4], key)
      end
    end
  end
  if #gone == 0 then
    return
  end
  done = done + #gone
  redis.call('HDEL', KEYS[3], unpack(gone))
  redis.call('ZREM', KEYS[2], unpack(gone))
  for i = 5, #KEYS do -- a key that was put aside, and has changed since
    if redis.call('EXISTS', KEYS[i]) == 1 then
      redis.call('ZREM', KEYS[i], unpack(gone))
    end
  end
end

for first = 3, #ARGV, 6000 do -- Lua passes on at most 8,000 values
  ack(first, math.min(first + 5999, #ARGV))
end
return {done - parked, parked, changed}
