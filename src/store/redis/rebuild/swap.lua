-- B9: puts the building filter in the live one's place, if it is still ours, whole, and newer.
--
-- KEYS[1] next   KEYS[2] bits   KEYS[3] meta   KEYS[4] log
-- ARGV[1] the expected header of next, catching up   ARGV[2] the same, live
-- ARGV[3] length of the whole filter   ARGV[4] incarnation noted at B1
-- ARGV[5] the live key's first 64 bytes if the caller found them to be no filter, else ''
-- ARGV[6] greatest number of journal entries
-- ARGV[7] for how long an incarnation's first swap waits, ms   ARGV[8] when the rebuild began (B0), ms
-- ARGV[9] the generation in decimal
-- Returns 'OK', 'LOST', 'GAP', 'FENCED'; 'UNVOUCHED' when adds that nobody can replay may have become
-- visible since the rebuild began; or 'HELD' while others may have adds to replay: come again.
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[3]) then
  return 'LOST'
end
-- What counts of the time between two looks at the most, ms: they come every 50 ms and a round trip.
local LOOK = 250
local meta = redis.call('HMGET', KEYS[3], 'inc', 'hold', 'unvouched', 'settled', 'waits')
if meta[1] ~= ARGV[4] then return 'GAP' end
if meta[3] and tonumber(meta[3]) >= tonumber(ARGV[8]) then return 'UNVOUCHED' end
if redis.call('TYPE', KEYS[2]).ok == 'string' then
  local live = redis.call('GETRANGE', KEYS[2], 0, 63)
  if string.sub(live, 1, 8) == string.sub(ARGV[1], 1, 8)
    and live ~= ARGV[5]
    and string.sub(live, 17, 24) >= string.sub(ARGV[1], 17, 24) then
    return 'FENCED'
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function ahead(field, moment, most)
  -- A clock that was set back must not hold a swap for longer than it was meant to.
  if moment > now + most then
    moment = now + most
    redis.call('HSET', KEYS[3], field, string.format('%.0f', moment))
  end
  return moment > now
end
local grace = tonumber(ARGV[7])
-- The others need time to find a new incarnation and to say that they have adds for it, and only time in
-- which Redis is at work and takes writes is such time. So it is counted from look to look, beginning
-- here: each look writes, and of what lies between two of them no more counts than a live server needs.
if meta[4] ~= ARGV[4] then
  local of, waited, last = string.match(meta[5] or '', '^(%d+) (%d+) (%d+)$')
  if of ~= ARGV[9] then waited, last = 0, now end
  waited = waited + math.max(0, math.min(now - last, LOOK))
  redis.call('HSET', KEYS[3], 'waits', string.format('%s %.0f %.0f', ARGV[9], waited, now))
  if waited < grace then return 'HELD' end
end
if ahead('hold', tonumber(meta[2] or '0'), grace) then
  return 'HELD'
end
redis.call('SETRANGE', KEYS[1], 0, ARGV[2])
-- RENAME carries the source's TTL over.
redis.call('PERSIST', KEYS[1])
redis.call('RENAME', KEYS[1], KEYS[2])
-- Whoever joins from now on takes no older filter for the live one.
redis.call('HSET', KEYS[3], 'live', ARGV[9], 'settled', ARGV[4])
local seq = redis.call('HINCRBY', KEYS[3], 'seq', 1)
local before = redis.call('HGET', KEYS[3], 'last') or '0'
local id = redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[6], '*',
  'k', 'g', 'i', redis.call('HGET', KEYS[3], 'kid') or '', 's', seq, 'p', before, 'd', string.sub(ARGV[2], 17, 32))
redis.call('HSET', KEYS[3], 'last', string.match(id, '^%d+'))
return 'OK'
