-- Tells an observer what join.lua would tell a process, and writes nothing.
--
-- KEYS and the reply are those of join.lua, whose ARGV are not used. The reply is an error where there is no filter to look at.
-- Where the stamp of the live filter is not the number of the last insert, join.lua puts that filter out of use: here every
-- generation that went live is said to be newer than it.
local fields = {'kid', 'key', 'inc', 'since', 'live', 'life', 'last', 'reach', 'settles', 'mode', 'mode_at', 'began'}
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
  local number = tonumber(get('last'))
  if #stamp == 8 and stamp ~= struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296) then
    meta.live = '9007199254740991'
  end
end
local is_record = redis.call('TYPE', KEYS[2]).ok == 'zset'
local floor = is_record and redis.call('ZSCORE', KEYS[2], 'floor')
return {
  meta.kid, meta.key or '', meta.inc, string.format('%.0f', math.max(0, now - get('since'))),
  get('live'), get('life'), get('last'), time[1], time[2],
  get('reach'), get('settles'), meta.mode or 'e', get('mode_at'),
  string.format('%.0f', is_record and math.max(0, redis.call('ZCARD', KEYS[2]) - 1) or 0),
  floor and tonumber(floor) ~= tonumber(get('began')) and string.format('%.0f', tonumber(floor)) or '0',
}
