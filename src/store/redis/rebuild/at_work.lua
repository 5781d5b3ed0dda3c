-- At work: notes that Redis takes writes. An incarnation's first swap goes by it (swap.lua).
--
-- KEYS[1] meta
-- ARGV[1] incarnation noted at mark   ARGV[2] the generation in decimal
-- ARGV[3] '1' if the note before this one has failed, else ''
-- Returns 1, or 0 when no swap waits for it.
-- The metadata's field `works`: the generation, since when Redis has taken writes, and when it last did, ms.
--
-- The most that may lie between two notes, ms: they come every 100 ms and a round trip.
local LOOK = 250
local meta = redis.call('HMGET', KEYS[1], 'inc', 'settled', 'works')
if meta[1] ~= ARGV[1] or meta[2] == ARGV[1] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local of, since, last = string.match(meta[3] or '', '^(%d+) (%d+) (%d+)$')
if of ~= ARGV[2] or ARGV[3] ~= '' or now < tonumber(last) or now - last > LOOK then since = now end
redis.call('HSET', KEYS[1], 'works', string.format('%s %.0f %.0f', ARGV[2], since, now))
return 1
