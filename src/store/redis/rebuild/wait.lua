-- Wait: notes that Redis takes writes, and counts for how long it has. An incarnation's first swap waits for that
-- (swap.lua).
--
-- KEYS[1] meta
-- ARGV[1] incarnation noted at mark   ARGV[2] for how long the first swap waits, ms
-- Returns 1, or 0 when no swap of this incarnation waits for it, and nothing was noted.
-- The metadata's field `worked`: the incarnation, for how long Redis has taken writes in it, ms, and the last note's
-- moment, ms.
--
-- The most that counts of the time between two notes, ms: they come every 100 ms and a round trip.
local LOOK = 250
local meta = redis.call('HMGET', KEYS[1], 'inc', 'settled', 'worked')
if meta[1] ~= ARGV[1] or meta[2] == ARGV[1] then return 0 end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local of, worked, last = string.match(meta[3] or '', '^(.*) (%d+) (%d+)$')
-- A replay that was interrupted for more than half of that wait has the whole time once more.
if of ~= ARGV[1] or now < tonumber(last) or now - last > ARGV[2] / 2 then worked, last = 0, now end
worked = worked + math.min(now - last, LOOK)
redis.call('HSET', KEYS[1], 'worked', ARGV[1] .. string.format(' %.0f %.0f', worked, now))
return 1
