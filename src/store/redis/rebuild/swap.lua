-- Swap: puts the building filter in the live one's place, if it is still the caller's, whole, and newer.
--
-- KEYS[1] next   KEYS[2] bits   KEYS[3] meta
-- ARGV[1] the expected header of next   ARGV[2] the live one
-- ARGV[3] length of the whole filter   ARGV[4] the lease's moment, ms   ARGV[5] the generation in decimal
-- ARGV[6] the states of disproved filters, a byte each
-- Returns 'OK', 'LOST', also in another incarnation, which frees next (incarnation/join.lua), 'FENCED', or 'UNVOUCHED' when inserts
-- that no process can repeat may have become visible since the lease.
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1] or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[3]) then return 'LOST' end
local meta = redis.call('HMGET', KEYS[3], 'last', 'unvouched', 'settles', 'live')
-- All blocks are there, and all inserts since the lease.
local high, low, done = struct.unpack('>I4I4I4', redis.call('GETRANGE', KEYS[1], 64, 75))
if high * 4294967296 + low ~= tonumber(meta[1] or '0') or 192 + 64 * done ~= tonumber(ARGV[3]) then return 'LOST' end
if meta[2] and tonumber(meta[2]) >= tonumber(ARGV[4]) then return 'UNVOUCHED' end
if tonumber(meta[4] or '0') >= tonumber(ARGV[5]) then return 'FENCED' end
-- The place of a disproved filter is taken once (distrust.lua).
local state = redis.call('TYPE', KEYS[2]).ok == 'string' and redis.call('GETRANGE', KEYS[2], 11, 11) or ''
if state ~= '' and string.find(ARGV[6], state, 1, true) then
  redis.call('HSET', KEYS[3], 'rebuilt', ARGV[5])
end
redis.call('SETRANGE', KEYS[1], 0, ARGV[2])
-- RENAME carries the source's TTL over.
redis.call('PERSIST', KEYS[1])
redis.call('RENAME', KEYS[1], KEYS[2])
-- Connections that join from now on trust no older filter.
redis.call('HSET', KEYS[3], 'live', ARGV[5])
-- This rebuild has read what was created by processes that do not insert.
local settles = tonumber(meta[3] or '0')
if settles > 0 and tonumber(ARGV[4]) >= settles then redis.call('HSET', KEYS[3], 'settles', '0') end
return 'OK'
