-- Reads the headers of the live and the building filter, and what the fleet goes by, in one piece.
--
-- KEYS[1] bits   KEYS[2] next   KEYS[3] meta   KEYS[4] lock
-- ARGV[1] '1' to have the metadata's field `heir` become the most that any process asks for from now on (change_fleet.lua), unless
-- another call has; else nothing is written.
-- Returns {type, first 64 bytes, length} of bits, the same of next, TIME (s, µs), the incarnation, the number of the mode, how far
-- the record reaches back, ms, when a rebuild was asked for last, µs, the last token, and 1 while a rebuild has the lease, else 0.
local function look(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return kind, '', 0 end
  return kind, redis.call('GETRANGE', key, 0, 63), redis.call('STRLEN', key)
end
local kind, head, len = look(KEYS[1])
local next_kind, next_head, next_len = look(KEYS[2])
local time = redis.call('TIME')
local meta = redis.call('HMGET', KEYS[3], 'inc', 'mode_at', 'reach', 'asked', 'epoch', 'heir')
if ARGV[1] == '1' and meta[1] and (meta[6] or '0') == '0' then redis.call('HSET', KEYS[3], 'heir', '1') end
return {kind, head, len, next_kind, next_head, next_len, time[1], time[2], meta[1] or '', meta[2] or '0', meta[3] or '0',
  meta[4] or '0', meta[5] or '0', redis.call('EXISTS', KEYS[4])}
