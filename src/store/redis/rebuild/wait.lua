-- Wait: whether a scan may begin. The first of an incarnation waits until Redis has taken writes for a while, in which processes
-- find the incarnation and begin to repeat their inserts; every scan waits while one does.
--
-- KEYS[1] meta
-- ARGV[1] the incarnation of the lease   ARGV[2] for how long the first scan waits, ms
-- ARGV[3] '1' once Redis has answered the caller for that long, else ''
-- Returns 'OK', 'HELD', or 'OTHER' where this is another incarnation.
local meta = redis.call('HMGET', KEYS[1], 'inc', 'worked', 'hold')
if meta[1] ~= ARGV[1] then return 'OTHER' end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- A clock that was set back must not hold a scan for longer. It is a write each time: no process repeats its inserts while Redis
-- takes none.
local hold = math.min(tonumber(meta[3] or '0'), now + ARGV[2])
redis.call('HSET', KEYS[1], 'hold', string.format('%.0f', hold))
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'worked', ARGV[1]) end
return (ARGV[3] == '1' or meta[2] == ARGV[1]) and hold <= now and 'OK' or 'HELD'
