-- Wait: whether a scan may begin. An incarnation's first waits until Redis has taken writes for a while, in which other processes
-- find the incarnation and begin to repeat their inserts; each waits while one does.
--
-- KEYS[1] meta
-- ARGV[1] the incarnation of the lease   ARGV[2] for how long the first scan waits, ms
-- Returns 'OK', 'HELD', or 'OTHER' where this is another incarnation.
-- The metadata's field `worked`: the incarnation, for how long Redis has taken writes in it, ms, and the last note's
-- moment, ms. `settled` is the incarnation in which that was long enough.
--
-- The most that counts of the time between two notes, ms: they come every 100 ms and a round trip.
local LOOK = 250
local meta = redis.call('HMGET', KEYS[1], 'inc', 'settled', 'worked', 'hold')
if meta[1] ~= ARGV[1] then return 'OTHER' end
local time = redis.call('TIME')
local now, grace = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[2])
if meta[2] ~= ARGV[1] then
  local of, worked, last = string.match(meta[3] or '', '^(.*) (%d+) (%d+)$')
  -- A replay that was interrupted for more than half of that wait has the whole time once more.
  if of ~= ARGV[1] or now < tonumber(last) or now - last > grace / 2 then worked, last = 0, now end
  worked = worked + math.min(now - last, LOOK)
  redis.call('HSET', KEYS[1], 'worked', ARGV[1] .. string.format(' %.0f %.0f', worked, now))
  if worked < grace then return 'HELD' end
  redis.call('HSET', KEYS[1], 'settled', ARGV[1])
end
-- A clock that was set back must not hold a scan for longer than it was meant to.
local hold = tonumber(meta[4] or '0')
if hold > now + grace then redis.call('HSET', KEYS[1], 'hold', string.format('%.0f', now + grace)) end
return hold > now and 'HELD' or 'OK'
