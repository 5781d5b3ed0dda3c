-- Tells an observer what join.lua would tell a process, and writes nothing.
--
-- KEYS and the reply are those of join.lua, whose ARGV are not used. The reply is an error where there is no filter to look at.
-- Where the stamp of the live filter is not the number of the last entry, join.lua puts that filter out of use: here every
-- generation that went live is said to be newer than it.
local fields = {'kid', 'key', 'inc', 'since', 'live', 'life', 'seq', 'last', 'reach', 'settles', 'mode', 'mode_at'}
local meta = {}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(fields))) do
  meta[fields[i]] = value or nil
end
if not meta.kid or not meta.inc then return redis.error_reply('ERR there is no filter of this name') end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function get(field)
  return meta[field] or '0'
end
if redis.call('TYPE', KEYS[3]).ok == 'string' then
  local stamp = redis.call('GETRANGE', KEYS[3], 64, 71)
  local number = tonumber(get('seq'))
  if #stamp == 8 and stamp ~= struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296) then
    meta.live = '9007199254740991'
  end
end
local function last_dropped()
  local oldest = redis.call('XRANGE', KEYS[2], '0', '+', 'COUNT', 1)[1]
  if not oldest then return get('seq') == '0' and '0' or get('last') end
  local entry = {}
  for i = 1, #oldest[2], 2 do entry[oldest[2][i]] = oldest[2][i + 1] end
  return entry.s == '1' and '0' or entry.p or ''
end
return {
  meta.kid, meta.key or '', meta.inc, string.format('%.0f', math.max(0, now - get('since'))),
  get('live'), get('life'), get('seq'), get('last'), time[1], time[2],
  get('reach'), get('settles'), meta.mode or 'e', get('mode_at'), last_dropped(),
}
