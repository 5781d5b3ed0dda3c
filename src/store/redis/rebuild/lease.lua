-- Lease and mark: takes the rebuild lease, draws the fencing token, notes where the journal stands.
--
-- KEYS[1] lock   KEYS[2] meta   KEYS[3] marks   KEYS[4] next   KEYS[5] log
-- ARGV[1] the caller's nonce   ARGV[2] life of the lease, ms
-- ARGV[3] the least token that is newer than the live filter, decimal
-- ARGV[4] how long the rebuild may take, ms
-- Returns {'BUSY'}, or {'OK', token, reach of the longest transaction in ms, incarnation, key id,
-- TIME s, µs, the moment in ms after which a rebuild may begin, the number of journal entries}.
-- After a lost reply the same nonce takes the lease up.
--
-- What a process left behind that ended in a rebuild may be all that has Redis full. A DEL passes then, and so does
-- what follows it in a script.
if redis.call('EXISTS', KEYS[1]) == 0 and redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('DEL', KEYS[4])
end
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
  and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {'BUSY'}
end
local time = redis.call('TIME')
-- Doubles hold whole numbers up to 2^53; µs since 1970 stay below that until the year 2255.
local before = redis.call('HMGET', KEYS[2], 'epoch', 'asked')
local token = math.max(
  tonumber(before[1] or '0') + 1,
  tonumber(before[2] or '0') + 1,
  tonumber(ARGV[3]),
  time[1] * 1000000 + time[2])
token = string.format('%.0f', token)
redis.call('HSET', KEYS[2], 'epoch', token)
-- Marks that are over are dropped by later adds, and here, should there be none.
local moment = time[1] * 1000 + math.floor(time[2] / 1000)
local now = string.format('%.0f', moment)
local over = math.min(redis.call('ZCOUNT', KEYS[3], '-inf', now), 16384)
if over > 0 then redis.call('ZREMRANGEBYRANK', KEYS[3], 0, over - 1) end
local reach = redis.call('HGET', KEYS[2], 'reach') or '0'
-- From now on adds keep journal entries for as long as the slowest rebuild needs them (add.lua).
if tonumber(ARGV[4]) > tonumber(redis.call('HGET', KEYS[2], 'span') or '0') then
  redis.call('HSET', KEYS[2], 'span', ARGV[4])
end
local unvouched = redis.call('HGET', KEYS[2], 'unvouched') or '0'
-- A clock that was set back must not hold rebuilds for longer than a transaction may take.
if tonumber(unvouched) > moment + reach then
  unvouched = string.format('%.0f', moment + reach)
  redis.call('HSET', KEYS[2], 'unvouched', unvouched)
end
local entries = redis.call('TYPE', KEYS[5]).ok == 'stream' and redis.call('XLEN', KEYS[5]) or 0
-- Half of a mark's life is longer than the longest transaction: so far back the journal is needed.
return {
  'OK', token,
  string.format('%.0f', math.ceil(reach / 2)),
  redis.call('HGET', KEYS[2], 'inc') or '',
  redis.call('HGET', KEYS[2], 'kid') or '',
  time[1], time[2],
  unvouched,
  entries,
}
