-- Joins this filter's metadata, or creates it, and looks whether the data have gone back in time. It is the first
-- command on a new connection after INFO and TIME, and repeated with each poll.
--
-- KEYS[1] meta   KEYS[2] recent   KEYS[3] bits   KEYS[4] next   KEYS[5] lock
-- ARGV[1] id of the caller's secret key, 8 hex digits
-- ARGV[2] the secret key itself (16 bytes) when it was drawn, '' when the application gave it
-- ARGV[3] 16 random bytes: the incarnation, should this be a new one
-- ARGV[4] how far back the record of recent inserts has to reach, ms   ARGV[5] the Redis process that answers, 8 hex digits
-- ARGV[6] the incarnation that holds all recent adds of the caller, '' if the caller has added nothing
-- ARGV[7] how long scans wait for a caller that has adds to replay here, ms
-- ARGV[8] the incarnation of this Redis process that the caller knows, '' if none
-- ARGV[9] its number   ARGV[10] the number of the last insert that the caller knows of it
-- ARGV[11] '1' if the caller has seen this process's clock jump in that incarnation, else ''
-- ARGV[12] for how long a new filter settles, ms
-- ARGV[13] what the caller knows of that: '' nothing, '0' the filter has settled, else for how long it still settles, ms
-- ARGV[14] the letter of the newest mode that the caller knows, '' if it knows none   ARGV[15] its number
-- ARGV[16] when the caller was last told by this script, by the clock of the Redis that answered, ms
-- Returns {key id, key or '', incarnation, its age in ms, the last generation that went live or '0',
-- the incarnation's number, the number of the last insert, TIME s, µs, how far back the record reaches in ms by what any caller
-- before has asked for, or 0, the moment in ms until which the filter settles, or 0, the letter of the fleet's mode, its number,
-- how many ids the record holds, the number up to which inserts may be missing in it, '0' where none was dropped}.
--
-- An insert's number is the time at which it was made, µs, or the number before plus one. The last one is in the metadata,
-- behind the live filter's header, and the greatest score of the record.
--
-- An incarnation ends with the metadata and with the Redis process. It ends, too, when the data have gone back in
-- time, or the clock has jumped. What was acknowledged before may be lost, and every process replays its recent adds
-- (rebuild/wait.lua gives them time).
-- What holds another type is not ours. It is put aside, and what was ours counts as lost.
for i, ours in ipairs({'hash', 'zset', 'none', 'none', 'string'}) do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if ours ~= 'none' and kind ~= 'none' and kind ~= ours then redis.call('RENAME', KEYS[i], KEYS[i] .. ':aside') end
end
-- Nor are metadata with a field that the guard never writes.
local MOST = {reach = 1e10, heir = 1e10}
local function is_odd(field, value)
  if field == 'mode' then return not string.match(value, '^[eso]$') end
  if field == 'kid' or field == 'run' then return not string.match(value, '^%x%x%x%x%x%x%x%x$') end
  return not string.match(value, '^%d+$') or tonumber(value) > (MOST[field] or 9007199254740992)
end
local FIELDS = {'kid', 'run', 'mode', 'last', 'began', 'since', 'life', 'live', 'epoch', 'reach', 'heir', 'stated',
  'polled', 'lapsed', 'lapse', 'hold', 'unvouched', 'settles', 'mode_at', 'asked', 'inc', 'key'}
-- As they are in Redis.
local meta = {}
local function read_meta()
  for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(FIELDS))) do
    local field = FIELDS[i]
    if value and field ~= 'inc' and field ~= 'key' and is_odd(field, value) then return false end
    meta[field] = value or nil
  end
  return true
end
if not read_meta() then
  redis.call('RENAME', KEYS[1], KEYS[1] .. ':aside')
  meta = {}
end
local function set(...)
  redis.call('HSET', KEYS[1], ...)
  for i = 1, select('#', ...), 2 do meta[select(i, ...)] = tostring((select(i + 1, ...))) end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function get(field)
  return tonumber(meta[field] or '0')
end
-- What is beyond this is no number of ours, nor could the next join read it.
local EXACT = 9007199254740991
local function raise(field, moment)
  if moment > get(field) and moment <= EXACT then
    set(field, string.format('%.0f', moment))
  end
end
local function exact(number)
  number = tonumber(number or '0') or 0
  return number <= EXACT and number or 0
end

local function number_of(stamp)
  local high, low = struct.unpack('>I4I4', stamp)
  return high * 4294967296 + low
end
-- Of any filter of ours, whatever its state; also one of an earlier version.
local function stamp_of_bits()
  if redis.call('TYPE', KEYS[3]).ok ~= 'string' or redis.call('STRLEN', KEYS[3]) < 72 then return nil end
  local head = redis.call('GETRANGE', KEYS[3], 0, 71)
  if string.sub(head, 1, 9) ~= 'BLMGUARD\0' or string.byte(head, 10) > 2 then return nil end
  return string.sub(head, 65, 72), string.sub(head, 10, 12) == '\2\1\85'
end
-- 0 is no state, and every check reads it. An earlier version takes the filter for a later one's, and inserts no more.
local function spoil()
  if stamp_of_bits() then redis.call('SETRANGE', KEYS[3], 8, '\0\2\1\0') end
end
-- Inserts of before may be lost, and are repeated. A new incarnation's numbers begin above all that were given before, wherever
-- they are found. The floor says that the record may lack what came before.
local function begin_anew()
  local life = math.max(now, get('life') + 1, tonumber(ARGV[9]) + 1)
  local there = stamp_of_bits()
  local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
  local before = math.max(get('last'), there and exact(number_of(there)) or 0, exact(top[2]), exact(ARGV[10]))
  local first = string.format('%.0f', math.max(before + 1, time[1] * 1000000 + time[2]))
  set('inc', ARGV[3], 'run', ARGV[5], 'since', string.format('%.0f', now), 'life', string.format('%.0f', life),
    'last', first, 'began', first)
  redis.call('ZADD', KEYS[2], first, 'floor')
  spoil()
  -- A rebuild of an earlier incarnation cannot go live any more (rebuild/swap.lua).
  redis.call('DEL', KEYS[4], KEYS[5])
end

local fresh = not meta.inc
if not meta.kid then
  set('kid', ARGV[1])
  if ARGV[2] ~= '' then set('key', ARGV[2]) end
  -- It may hold digests of another key, which say nothing under this one.
  redis.call('DEL', KEYS[2])
end

-- No filter of before is trusted, should it come back (shard.rs), and later ones get newer tokens.
local function distrust_filters()
  local micros = time[1] * 1000000 + time[2]
  raise('live', micros)
  raise('epoch', micros)
end
if fresh or meta.run ~= ARGV[5] then
  begin_anew()
  -- Nor is that of the process before, should the data go back to it: what was acknowledged here may be lost by then.
  if not fresh then distrust_filters() end
else
  local there, is_live = stamp_of_bits()
  local number = there and number_of(there)
  if is_live and number ~= get('last') then spoil() end
  local known = meta.inc == ARGV[8]
  local back = is_live and number > get('last')
    or known and get('last') < tonumber(ARGV[10])
    or not known and ARGV[8] ~= '' and get('life') < tonumber(ARGV[9])
  if back then distrust_filters() end
  if back or known and ARGV[11] == '1' then begin_anew() end
end
local incarnation = meta.inc
-- What is built under no lease goes live no more.
if redis.call('EXISTS', KEYS[5]) == 0 then redis.call('DEL', KEYS[4]) end
if ARGV[6] ~= incarnation and ARGV[6] ~= '' then raise('hold', now + ARGV[7]) end
-- A filter settles while processes may run that do not insert into it: after its metadata were made, or when no process
-- has looked at them for a minute. A caller that knows better has been there all the time. A swap ends it (swap.lua).
local kid = meta.kid
local settles, mode, mode_at = get('settles'), meta.mode or 'e', get('mode_at')
local function settle_until(moment)
  if moment ~= settles then set('settles', string.format('%.0f', moment)) end
  settles = moment
end
local WEEK = 604800000
local MILD = {e = 0, s = 1, o = 2}
-- A moment that is still to come was written before the clock was set back.
local function before_now(field)
  local moment = get(field)
  return moment <= now + 1000 and moment or 0
end
-- A process with another secret key has no say.
local has_say = kid == ARGV[1] or ARGV[2] ~= '' and meta.key
if has_say then
  local looked, told, rest = math.max(before_now('polled'), before_now('stated')), tonumber(ARGV[16]), tonumber(ARGV[13])
  -- What a caller knows is old, if others have looked for long since it was told, and it may have ended meanwhile. If the filter
  -- settles since within a minute because nobody looked, those count that looked before: who comes first must not matter. Not
  -- for a caller whose clock has parted from this one's: it may have stood still.
  local others = looked
  if settles > 0 and now - before_now('lapse') <= 60000 and ARGV[11] ~= '1' then others = before_now('lapsed') end
  if not fresh and others - told > 60000 then rest = nil end
  if rest == 0 then
    settle_until(0)
  elseif fresh or now - looked > 60000 then
    local time_left = rest or tonumber(ARGV[12])
    local ends = time_left > 0 and now + time_left or 0
    -- Who knows nothing does not end sooner what goes on. No filter settles for more than a week: the clock was set back.
    if rest or ends > settles or settles > now + WEEK then
      settle_until(ends)
      if not rest then set('lapse', string.format('%.0f', now), 'lapsed', string.format('%.0f', looked)) end
    end
  elseif settles > 0 and rest and rest > 1 and math.abs(now + rest - settles) > 2000 then
    -- Redis's clock has jumped. A rest of 1 says that the time is over: it must not be moved behind a rebuild that goes on.
    settle_until(now + rest)
  end
  local number = tonumber(ARGV[15])
  if ARGV[14] ~= '' and (number > mode_at or number == mode_at and MILD[ARGV[14]] > MILD[mode]) then
    mode, mode_at = ARGV[14], number
    set('mode', mode, 'mode_at', string.format('%.0f', mode_at))
  end
  if now - looked > 5000 then set('polled', string.format('%.0f', now)) end
end
-- The record reaches as far back as the process needs that asks for the most. What was dropped before somebody asked for more
-- is below its floor. A process asks with each poll. When none has asked for as much for that long, and for 20 s more (of many
-- shards each has its turn within 16), the most is the heir, which the others have asked for since.
local reach, asked = get('reach'), tonumber(ARGV[4])
local function reaches(life)
  set('reach', life, 'stated', string.format('%.0f', now), 'heir', 0)
end
if has_say and asked > reach then
  reaches(ARGV[4])
elseif has_say and asked == reach then
  if now - before_now('stated') > 1000 then reaches(ARGV[4]) end
elseif has_say then
  raise('heir', asked)
  if now - get('stated') > reach + 20000 then reaches(string.format('%.0f', get('heir'))) end
end
local floor = redis.call('ZSCORE', KEYS[2], 'floor')
return {
  kid,
  meta.key or '',
  incarnation,
  string.format('%.0f', math.max(0, now - get('since'))),
  meta.live or '0',
  string.format('%.0f', get('life')),
  string.format('%.0f', get('last')),
  time[1], time[2],
  string.format('%.0f', reach),
  string.format('%.0f', settles),
  mode,
  string.format('%.0f', mode_at),
  string.format('%.0f', math.max(0, redis.call('ZCARD', KEYS[2]) - 1)),
  floor and tonumber(floor) ~= get('began') and string.format('%.0f', tonumber(floor)) or '0',
}
