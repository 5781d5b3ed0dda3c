-- Reads the headers of the live and the building filter, and what the fleet goes by, in one piece. Writes nothing.
--
-- KEYS[1] bits   KEYS[2] next   KEYS[3] meta
-- Returns {type, first 64 bytes, length} of bits, the same of next, then TIME (s, µs), the incarnation, the
-- number of the mode, how long the longest mark lasts, ms, and when a rebuild was asked for last, µs.
local function look(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return kind, '', 0 end
  return kind, redis.call('GETRANGE', key, 0, 63), redis.call('STRLEN', key)
end
local kind, head, len = look(KEYS[1])
local next_kind, next_head, next_len = look(KEYS[2])
local time = redis.call('TIME')
local fleet = redis.call('HMGET', KEYS[3], 'inc', 'mode_at', 'reach', 'asked')
return {kind, head, len, next_kind, next_head, next_len, time[1], time[2], fleet[1] or '', fleet[2] or '0', fleet[3] or '0',
  fleet[4] or '0'}
