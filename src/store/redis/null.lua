-- Remembers that an id is missing, unless a create of it may have begun since the database was read.
--
-- KEYS[1] the id's null key   KEYS[2] recent   KEYS[3] meta
-- ARGV[1] the null: the letter of its scope (e everyone, a anonymous), and the generation under which it counts, decimal
-- ARGV[2] life of the null, ms
-- ARGV[3] latest moment for it by Redis's clock, µs: a command that was held up must not outlive the record of recent inserts
-- ARGV[4] the id's digest, 16 bytes
-- ARGV[5] '1' of a deletion, which may be a transaction's length ago; else ''
-- ARGV[6] the incarnation that the caller has joined
-- Returns 'OK', 'CREATED' or 'LATE'.
local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local meta = redis.call('HMGET', KEYS[3], 'inc', 'last', 'began', 'reach', 'since', 'unvouched')
if meta[1] ~= ARGV[6] or not meta[4] then return 'CREATED' end
local reach = meta[4] * 1000
local function is_recent(number)
  return number and tonumber(number) > micros - reach
end
if is_recent(redis.call('ZSCORE', KEYS[2], ARGV[4])) then return 'CREATED' end
-- The record must be whole: its greatest score is the last number, and nothing was dropped lately. The floor of an incarnation's
-- beginning does not count: earlier inserts are repeated.
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if not top[2] or tonumber(top[2]) ~= tonumber(meta[2] or '0') then return 'CREATED' end
local floor = redis.call('ZSCORE', KEYS[2], 'floor')
if not floor or is_recent(floor) and tonumber(floor) ~= tonumber(meta[3] or '0') then return 'CREATED' end
-- Nor may a process have given up to repeat its own.
if meta[6] and is_recent(meta[6] * 1000) then return 'CREATED' end
-- A deletion may be older than the inserts that were repeated.
if ARGV[5] == '1' and is_recent(meta[5] * 1000) then return 'CREATED' end
if micros > tonumber(ARGV[3]) then return 'LATE' end
-- A null that says as much for longer stays: a 404 does not cut a removal short.
local there = redis.call('GET', KEYS[1]) or ''
if string.sub(there, 2) == string.sub(ARGV[1], 2)
  and (string.sub(there, 1, 1) == 'e' or there == ARGV[1])
  and redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then
  return 'OK'
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'OK'
