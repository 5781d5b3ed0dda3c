-- Remembers that an id is missing, unless a create of it may have begun since the database was
-- read.
--
-- KEYS[1] the id's null key   KEYS[2] marks   KEYS[3] meta
-- ARGV[1] the null: the letter of its scope (e everyone, a anonymous), the generation in decimal it was
--         found under: with another generation live, no check takes it for a null
-- ARGV[2] life of the null, ms
-- ARGV[3] latest moment for it by Redis's clock, µs, so that a command held up on its way cannot
--         outlive the create mark
-- ARGV[4] the id's digest, 16 bytes
-- ARGV[5] '1' where the application tells of a deletion, which may be a transaction's length ago; else ''
-- Returns 'OK', 'CREATED' or 'LATE'.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function within_mark(moment)
  return moment and tonumber(moment) > now
end
if within_mark(redis.call('ZSCORE', KEYS[2], ARGV[4])) then return 'CREATED' end
local meta = redis.call('HMGET', KEYS[3], 'marked', 'blind', 'inc', 'since', 'reach')
-- Nothing is known of marks any more.
if not meta[3] then return 'CREATED' end
-- The last mark must be there and is not: the key was lost, or is an older copy of itself.
if within_mark(meta[1]) and redis.call('ZCOUNT', KEYS[2], meta[1], '+inf') == 0 then return 'CREATED' end
-- Marks were dropped before their time.
if meta[2] and tonumber(meta[2]) > now then return 'CREATED' end
-- Marks from before this life of Redis may be lost. For a 404 that was asked for in it, those are enough
-- that everybody has set anew; a deletion may be older than any of them.
if ARGV[5] == '1' and not (meta[4] and meta[5] and meta[4] + meta[5] <= now) then return 'CREATED' end
if time[1] * 1000000 + time[2] > tonumber(ARGV[3]) then return 'LATE' end
-- What is there and says as much for longer stays: a 404 does not cut a removal short.
local there = redis.call('GET', KEYS[1]) or ''
if string.sub(there, 2) == string.sub(ARGV[1], 2)
  and (string.sub(there, 1, 1) == 'e' or there == ARGV[1])
  and redis.call('PTTL', KEYS[1]) >= tonumber(ARGV[2]) then
  return 'OK'
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 'OK'
