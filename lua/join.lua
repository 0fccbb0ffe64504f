-- Part of acquire and release.
-- join puts an owner in the line, or lets them keep their place there and live on. It returns how many are
-- before them, and how long the line is if the place is new and the line bounded; or nil and its length if it
-- takes no more.
--   place: 'LEASE:GRANT:LIMIT:HEARS:WAKE'
--     LEASE  ms for which the place lives without being asked for again; up to 10 times that far back
--     GRANT  TTL in ms that a hand-off gives
--     LIMIT  how many places the line may have; 0: any number
--     HEARS  1 if the client listens on its channel, which is WAKE and the part of the owner before the dot
--   since: as in acquire
-- What is kept of a place: 'DEADLINE:GRANT:LENGTH:WAKE LABEL' without the blank; LENGTH is that of WAKE, and 0
-- for who does not listen.
local function join(owner, place, label, since)
  local lease, grant, limit, hears, wake = string.match(place, '^(%d+):(%d+):(%d+):([01]):(.*)$')
  if not since or tonumber(since) > tonumber(us) then
    since = us
  end
  local line
  local new = redis.call('ZADD', KEYS[3], 'NX', since, owner) == 1
  redis.call('PEXPIRE', KEYS[3], '60000')
  if new and limit ~= '0' then
    line = redis.call('ZCARD', KEYS[3])
    if line > tonumber(limit) then
      redis.call('ZREM', KEYS[3], owner)
      return nil, line - 1
    end
  end
  local before = redis.call('ZRANK', KEYS[3], owner)
  local slow = math.min(1 + math.floor(before / 64), 10)
  if hears == '0' then
    wake = ''
  end
  redis.call('HSET', KEYS[4], owner,
    string.format('%.0f', tonumber(us) + tonumber(lease) * slow * 1000) .. ':' .. grant .. ':' .. #wake .. ':' .. wake .. label)
  redis.call('PEXPIRE', KEYS[4], '60000')
  return before, line
end
