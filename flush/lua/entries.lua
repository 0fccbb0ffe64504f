-- entries: what was added to streams since what was flushed last.
-- flags:   no-writes
-- KEYS:    1 cursors  2.. data keys
-- ARGV:    1 most entries of each  2 most bytes to return: no key is begun beyond  3.. for each key the ID of the entry
--          before, '' for none, instead of its cursor
-- Returns: for each key, until there are too many bytes, but for the first in any case: {ID of the entry before, or
--          '', {id, {field, value, ...}}, ...}; nil if the key is not there; the name of its type if it is no stream
local left = tonumber(ARGV[2])
local out = {}
for i = 2, #KEYS do
  if left <= 0 then
    break
  end
  local kind = redis.call('TYPE', KEYS[i])['ok']
  if kind == 'stream' then
    local before = ARGV[i + 1] or redis.call('HGET', KEYS[1], KEYS[i]) or ''
    local entries = redis.call('XRANGE', KEYS[i], before ~= '' and '(' .. before or '-', '+', 'COUNT', ARGV[1])
    for j = 1, #entries do
      for k = 1, #entries[j][2] do
        left = left - 16 - #entries[j][2][k]
      end
    end
    table.insert(entries, 1, before)
    out[i - 1] = entries
  else
    out[i - 1] = kind ~= 'none' and kind
  end
end
return out
