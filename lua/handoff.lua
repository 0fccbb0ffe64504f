-- Part of acquire, release and break.

-- counter returns the last fence that anybody may have used, or 0.
local function counter()
  local last = redis.pcall('GET', KEYS[2])
  if type(last) == 'table' and string.sub(last.err, 1, 9) ~= 'WRONGTYPE' then -- what can't be read may be any number
    last = redis.call('GET', KEYS[2])
  end
  last = type(last) == 'string' and tonumber(last) or 0
  if last >= 0 and last < 9e15 then
    return last
  end
  return 0
end

-- give makes an owner the holder, with a block of 65536 fences for the turns inside of their process. It returns
-- the first and the last of them, and the lock's value.
local function give(owner, label, ttl, fence)
  fence = math.max(tonumber(us), fence)
  local first, last = string.format('%.0f', fence), string.format('%.0f', fence + 65535)
  redis.call('SET', KEYS[2], last, 'PX', '604800000')
  local value = 'lk1:' .. owner .. ':' .. first .. ':' .. us .. ':' .. label
  redis.call('SET', KEYS[1], value, 'PX', ttl)
  return first, last, value
end

-- tell sends a message to an owner's client.
local function tell(wake, owner, message)
  redis.pcall('PUBLISH', wake .. string.match(owner, '^[^.]*'), message)
end

-- hears returns whether an owner's client may hear a message. It is asked before the message is sent: PUBLISH tells
-- as well, but who has been told must have the lock, and PUBLISH may reach others than those it counts, at a
-- replica or at another node of a cluster. Without a right to ask, anybody may hear.
local function hears(wake, owner)
  local n = redis.pcall('PUBSUB', 'NUMSUB', wake .. string.match(owner, '^[^.]*'))
  if n.err or tonumber(n[2]) ~= 0 then
    return true
  end
  local info = redis.pcall('INFO', 'cluster')
  if type(info) == 'table' and info.err then
    return string.find(info.err, 'NOPERM') ~= nil or string.find(info.err, 'can\'t run') ~= nil
  end
  return string.find(info, 'cluster_enabled:1', 1, true) ~= nil
end

-- handoff gives the lock to the first of the line who lives, and tells them. It returns the owner, the first and
-- the last of their fences, 1 if there are more in the line, else 0, and the lock's value and TTL; or nil if
-- none of the first 1024 lives.
--   last: the last fence that anybody may have used
--   me, label, ttl: who asks; if it is their turn they learn it from the reply. Or nil
-- Nothing is deleted before it is overwritten, and the line comes after the lock, so that an error half-way
-- leaves a lock that somebody has. A place whose client nobody can reach is passed over at once.
local function handoff(last, me, label, ttl)
  local line = redis.pcall('ZRANGE', KEYS[3], 0, 1)
  if line.err and string.sub(line.err, 1, 9) ~= 'WRONGTYPE' then -- a line that is no line is none; a missing right is told
    line = redis.call('ZRANGE', KEYS[3], 0, 1)
  end
  local passed = {}
  local to, first, others, value, grant
  for i = 1, 1024 do
    if i == 3 then
      line = redis.call('ZRANGE', KEYS[3], 0, 64)
    elseif i == 65 then
      line = redis.call('ZRANGE', KEYS[3], 0, 1024)
    end
    local owner = line[i]
    if not owner then
      break
    end
    passed[i] = owner
    local length = #line
    if i == 2 and length == 2 then
      length = redis.call('ZCARD', KEYS[3])
    end
    others = length > i and 1 or 0
    if owner == me then
      first, last, value = give(owner, label, ttl, last + 1)
      to, grant = owner, ttl
      break
    end
    local place = redis.pcall('HGET', KEYS[4], owner)
    if type(place) == 'table' and string.sub(place.err, 1, 9) ~= 'WRONGTYPE' then
      place = redis.call('HGET', KEYS[4], owner)
    end
    local deadline, n, at
    deadline, grant, n, at = string.match(type(place) == 'string' and place or '', '^(%d+):(%d+):(%d+):()')
    if deadline and tonumber(deadline) >= tonumber(us) then
      local wake = string.sub(place, at, at + tonumber(n) - 1)
      if wake == '' or hears(wake, owner) then
        first, last, value = give(owner, string.sub(place, at + #wake), grant, last + 1)
        if wake ~= '' then
          tell(wake, owner, 'g:lk1:' .. owner .. ':' .. first .. ':' .. us .. ':' .. others .. ':' .. KEYS[1])
        end
        to = owner
        break
      end
    end
  end
  if passed[1] then
    redis.pcall('HDEL', KEYS[4], unpack(passed))
    redis.call('ZREM', KEYS[3], unpack(passed))
  end
  return to, first, last, others, value, grant
end
