-- Swap: puts the building filter in the live one's place, if it is still the caller's, whole, and newer.
--
-- KEYS[1] next   KEYS[2] bits   KEYS[3] meta   KEYS[4] log
-- ARGV[1] the expected header of next, catching up   ARGV[2] the same, live
-- ARGV[3] length of the whole filter   ARGV[4] incarnation noted at mark
-- ARGV[5] the live key's first 64 bytes if the caller found them to be no filter, else ''
-- ARGV[6] greatest number of journal entries
-- ARGV[7] for how long an incarnation's first swap waits, ms   ARGV[8] when the rebuild began, ms
-- ARGV[9] the generation in decimal   ARGV[10] the states of disproved filters, a byte each
-- Returns 'OK', 'LOST', 'GAP', 'FENCED'; 'UNVOUCHED' when adds that no process can replay may have become
-- visible since the rebuild began; or 'HELD' while processes may have adds to replay: to be tried again.
-- A header's token; 0 where it is cut short. It is no more than 2^53, so a number holds it. Lua would order strings
-- as the server's locale does.
local function token(head)
  if #head < 24 then return 0 end
  local high, low = struct.unpack('>I4I4', head, 17)
  return high * 4294967296 + low
end
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[3]) then
  return 'LOST'
end
local meta = redis.call('HMGET', KEYS[3], 'inc', 'hold', 'unvouched', 'settled', 'worked', 'not_in_next', 'settles')
if meta[1] ~= ARGV[4] then return 'GAP' end
-- Adds since *catch up* that did not find the building filter.
if meta[6] then return 'LOST' end
if meta[3] and tonumber(meta[3]) >= tonumber(ARGV[8]) then return 'UNVOUCHED' end
if redis.call('TYPE', KEYS[2]).ok == 'string' then
  local live = redis.call('GETRANGE', KEYS[2], 0, 63)
  if string.sub(live, 1, 8) == string.sub(ARGV[1], 1, 8)
    and live ~= ARGV[5]
    and token(live) >= token(ARGV[1]) then
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
-- Other processes need time to find a new incarnation and to begin their replays. Only time in which Redis takes writes
-- counts: it is noted beside the steps before, and up to the swap (wait.lua).
if meta[4] ~= ARGV[4] then
  local of, worked, last = string.match(meta[5] or '', '^(.*) (%d+) (%d+)$')
  if of ~= ARGV[4] or tonumber(worked) < grace then return 'HELD' end
  if now < tonumber(last) or now - last > grace / 2 then return 'HELD' end
end
if ahead('hold', tonumber(meta[2] or '0'), grace) then
  return 'HELD'
end
-- The place of a disproved filter is taken once (distrust.lua).
local state = redis.call('TYPE', KEYS[2]).ok == 'string' and redis.call('GETRANGE', KEYS[2], 11, 11) or ''
if state ~= '' and string.find(ARGV[10], state, 1, true) then
  redis.call('HSET', KEYS[3], 'rebuilt', ARGV[9])
end
redis.call('SETRANGE', KEYS[1], 0, ARGV[2])
-- RENAME carries the source's TTL over.
redis.call('PERSIST', KEYS[1])
redis.call('RENAME', KEYS[1], KEYS[2])
-- Connections that join from now on trust no older filter.
redis.call('HSET', KEYS[3], 'live', ARGV[9], 'settled', ARGV[4])
-- Whatever a process that does not insert has created is in what this rebuild has read (incarnation/join.lua).
local settles = tonumber(meta[7] or '0')
if settles > 0 and tonumber(ARGV[8]) > settles then redis.call('HSET', KEYS[3], 'settles', '0') end
local seq = redis.call('HINCRBY', KEYS[3], 'seq', 1)
-- The filter's stamp: all entries up to here are in it (add.lua).
local stamp, rest = '', seq
for _ = 1, 8 do
  stamp = string.char(rest % 256) .. stamp
  rest = math.floor(rest / 256)
end
redis.call('SETRANGE', KEYS[2], 64, stamp)
local before = redis.call('HGET', KEYS[3], 'last') or '0'
local id = redis.call('XADD', KEYS[4], 'MAXLEN', '~', ARGV[6], '*',
  'k', 'g', 'i', redis.call('HGET', KEYS[3], 'kid') or '', 's', seq, 'p', before, 'd', string.sub(ARGV[2], 17, 32))
redis.call('HSET', KEYS[3], 'last', string.match(id, '^%d+'))
return 'OK'
