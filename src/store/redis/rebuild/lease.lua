-- Lease: takes the rebuild lease, and allocates the filter to be built. From here on inserts go to it, too (add.lua).
--
-- KEYS[1] lock   KEYS[2] meta   KEYS[3] next   KEYS[4] recent
-- ARGV[1] what the lock holds while it is the caller's   ARGV[2] life of the lease, ms
-- ARGV[3] the token, decimal   ARGV[4] header (64 bytes)   ARGV[5] trailer (64 bytes)
-- ARGV[6] length of the whole filter in bytes   ARGV[7] the incarnation that the caller has joined
-- Returns {'BUSY'}; {'OTHER'} in another incarnation; {'OLD'} when a newer token was given out, or a rebuild was asked for since
-- the caller looked; or {'OK', reach of the record, ms, TIME s, µs, the moment in ms after which a rebuild may begin}.
local meta = redis.call('HMGET', KEYS[2], 'inc', 'epoch', 'asked', 'last', 'reach', 'unvouched')
if meta[1] ~= ARGV[7] then return {'OTHER'} end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', KEYS[1]) == 1 then return {'BUSY'} end
local token = tonumber(ARGV[3])
if token <= tonumber(meta[2] or '0') or token <= tonumber(meta[3] or '0') then return {'OLD'} end
-- A filter that another rebuild left behind may be what fills Redis. A DEL passes then, and so does what follows it in a script.
redis.call('DEL', KEYS[3])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('HSET', KEYS[2], 'epoch', ARGV[3])
redis.call('SETRANGE', KEYS[3], ARGV[6] - 64, ARGV[5])
redis.call('SETRANGE', KEYS[3], 0, ARGV[4])
local last = tonumber(meta[4] or '0')
-- A record that was lost, or is an older copy, lacks what was inserted up to the last number (add.lua).
local top = redis.call('ZREVRANGE', KEYS[4], 0, 0, 'WITHSCORES')
if tonumber(top[2] or '0') < last then redis.call('ZADD', KEYS[4], string.format('%.0f', last), 'floor') end
redis.call('SETRANGE', KEYS[3], 64, struct.pack('>I4I4', math.floor(last / 4294967296), last % 4294967296))
local reach = tonumber(meta[5] or '0')
-- A clock that was set back must not hold rebuilds for longer than a transaction may take.
local unvouched = math.min(tonumber(meta[6] or '0'), now + reach)
if unvouched > 0 then redis.call('HSET', KEYS[2], 'unvouched', string.format('%.0f', unvouched)) end
return {'OK', string.format('%.0f', reach), time[1], time[2], string.format('%.0f', unvouched)}
