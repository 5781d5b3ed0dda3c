-- Reads the headers of the live and the building filter in one piece. Writes nothing.
--
-- KEYS[1] bits   KEYS[2] next
-- Returns {type, first 64 bytes, length} of bits, the same of next, then TIME (s, µs).
local function look(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return kind, '', 0 end
  return kind, redis.call('GETRANGE', key, 0, 63), redis.call('STRLEN', key)
end
local kind, head, len = look(KEYS[1])
local next_kind, next_head, next_len = look(KEYS[2])
local time = redis.call('TIME')
return {kind, head, len, next_kind, next_head, next_len, time[1], time[2]}
