-- Joins this filter's metadata, or creates it, and looks whether the data have gone back in time. It is the first
-- command on a new connection after INFO and TIME, and repeated with each poll.
--
-- KEYS[1] meta   KEYS[2] log   KEYS[3] bits   KEYS[4] lock   KEYS[5] marks
-- ARGV[1] id of the caller's secret key, 8 hex digits
-- ARGV[2] the secret key itself (16 bytes) when it was drawn, '' when the application gave it
-- ARGV[3] 16 random bytes: the incarnation, should this be a new one
-- ARGV[4] life of a create mark, ms   ARGV[5] the Redis process that answers, 8 hex digits
-- ARGV[6] the incarnation that holds all recent adds of the caller, '' if the caller has added nothing
-- ARGV[7] how long swaps wait for a caller that has adds to replay here, ms
-- ARGV[8] the incarnation of this Redis process that the caller knows, '' if none
-- ARGV[9] its number   ARGV[10] the number of the last entry that the caller knows of it
-- ARGV[11] '1' if the caller has seen this process's clock jump in that incarnation, else ''
-- ARGV[12] for how long a new filter settles, ms
-- ARGV[13] what the caller knows of that: '' nothing, '0' the filter has settled, else for how long it still settles, ms
-- ARGV[14] the letter of the newest mode that the caller knows, '' if it knows none   ARGV[15] its number
-- ARGV[16] when the caller was last told by this script, by the clock of the Redis that answered, ms
-- ARGV[17] the number of an entry of that incarnation   ARGV[18] when it was written, ms
-- Returns {key id, key or '', incarnation, its age in ms, the last generation that went live or '0',
-- the incarnation's number, the number of the last entry, when it was written in ms, TIME s, µs, the longest life of a
-- mark in ms that any caller before has asked for, or 0, the moment in ms until which the filter settles, or 0, the
-- letter of the fleet's mode, its number, when the last entry was written that the journal has no more, ms: 0 while it has
-- all that there were, '' where its oldest one does not tell}.
--
-- An incarnation ends with the metadata and with the Redis process. It ends, too, when the data have gone back in
-- time, or the clock has jumped. What was acknowledged before may be lost, and every process replays its recent adds
-- (rebuild/swap.lua gives them time).
-- What holds another type is not ours. It is put aside, and what was ours counts as lost.
for i, ours in ipairs({'hash', 'stream', 'none', 'string', 'zset'}) do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if ours ~= 'none' and kind ~= 'none' and kind ~= ours then redis.call('RENAME', KEYS[i], KEYS[i] .. ':aside') end
end
-- Nor are metadata with a field that the guard never writes.
local MOST = {reach = 1e10, heir = 1e10, span = 1e10}
local function is_odd(field, value)
  if field == 'mode' then return not string.match(value, '^[eso]$') end
  if field == 'kid' or field == 'run' then return not string.match(value, '^%x%x%x%x%x%x%x%x$') end
  return not string.match(value, '^%d+$') or tonumber(value) > (MOST[field] or 9007199254740992)
end
local FIELDS = {'kid', 'run', 'mode', 'seq', 'last', 'since', 'life', 'live', 'epoch', 'reach', 'heir', 'span', 'stated',
  'polled', 'lapsed', 'lapse', 'blind', 'marked', 'hold', 'unvouched', 'settles', 'mode_at', 'asked', 'inc', 'key'}
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
local key_of_log = ARGV[1]
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
local function begin_anew()
  local number = math.max(now, get('life') + 1, tonumber(ARGV[9]) + 1)
  set('inc', ARGV[3], 'run', ARGV[5],
    'since', string.format('%.0f', now), 'life', string.format('%.0f', number))
end
-- What is known of marks may be lost, or they end too early: no nulls until all marks would have ended.
local function distrust_marks()
  raise('blind', now + math.max(get('reach'), ARGV[4]))
end

-- A live filter whose stamp is not the number of the last entry lacks entries, or those are lost that it has (add.lua).
local function stamp(number)
  return struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
end
local function number_of(stamp)
  local high, low = struct.unpack('>I4I4', stamp)
  return high * 4294967296 + low
end
local function stamp_of_live()
  if redis.call('TYPE', KEYS[3]).ok ~= 'string' then return nil end
  local head, len = redis.call('GETRANGE', KEYS[3], 0, 63), redis.call('STRLEN', KEYS[3])
  if #head < 64 or string.sub(head, 1, 12) ~= 'BLMGUARD\0\1\1\85' then return nil end
  local a, b, c, d = string.byte(head, 33, 36)
  if len ~= 192 + 64 * (((a * 256 + b) * 256 + c) * 256 + d) then return nil end
  return redis.call('GETRANGE', KEYS[3], 64, 71)
end
local function spoil()
  if redis.call('TYPE', KEYS[3]).ok == 'string' and redis.call('GETRANGE', KEYS[3], 0, 7) == 'BLMGUARD' then
    -- 0 is no state, and every check reads it.
    redis.call('SETRANGE', KEYS[3], 11, '\0')
  end
end

local function fields_of(entry)
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  return fields
end
local function oldest_entry()
  local oldest = redis.call('XRANGE', KEYS[2], '0', '+', 'COUNT', 1)[1]
  return oldest and fields_of(oldest)
end

local fresh = not meta.inc
if fresh then set('inc', ARGV[3]) end
if fresh and redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then distrust_marks() end
-- A new incarnation goes on with the numbers of a surviving journal or filter, and of what the caller knows. So no two
-- entries share a number, and whatever was there before, should it come back, has a lower one.
local function go_on_with_journal()
  local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
  if not last then return end
  for i = 1, #last[2], 2 do
    local value = last[2][i + 1]
    if last[2][i] == 'i' then key_of_log = value end
    local number = last[2][i] == 's' and tonumber(value) or 0
    if number > get('seq') and number <= EXACT then
      set('seq', string.format('%.0f', number), 'last', string.match(last[1], '^%d+'))
    end
  end
end
if fresh then
  go_on_with_journal()
  local there = stamp_of_live()
  raise('seq', math.max(there and number_of(there) or 0, tonumber(ARGV[10])))
  -- Nothing says any more how much the filter has to hold. It may be an old copy.
  spoil()
end
if not meta.kid then
  set('kid', ARGV[1])
  if ARGV[2] ~= '' then set('key', ARGV[2]) end
  if key_of_log ~= ARGV[1] then
    -- The journal holds digests of another key, which prove nothing under this one: that is a gap.
    redis.call('DEL', KEYS[2])
    set('last', string.format('%.0f', now))
    set('seq', string.format('%.0f', get('seq') + 1))
  end
end

-- No filter of before is trusted, should it come back (shard.rs), and later ones get newer tokens.
local function distrust_filters()
  local micros = time[1] * 1000000 + time[2]
  raise('live', micros)
  raise('epoch', micros)
end
if meta.run ~= ARGV[5] then
  begin_anew()
  -- Nor is that of the process before, should the data go back to it: what was acknowledged here may be lost by then.
  if not fresh then distrust_filters() end
else
  -- Whether the number of an entry that the caller knows was given again, later: data have gone back, and adds followed.
  local function is_given_again()
    local number, written = tonumber(ARGV[17]), ARGV[18]
    if get('seq') == number then return get('last') > tonumber(written) end
    for _, entry in ipairs(redis.call('XRANGE', KEYS[2], written, '+', 'COUNT', 64)) do
      local theirs = tonumber(fields_of(entry).s or '0')
      if string.match(entry[1], '^%d+') ~= written then return theirs <= number end
      if theirs == number then return false end
    end
    return false
  end
  local there, expected = stamp_of_live(), stamp(get('seq'))
  if there and there ~= expected then spoil() end
  local known = meta.inc == ARGV[8]
  local back = there and number_of(there) > get('seq')
    or known and (get('seq') < tonumber(ARGV[10]) or is_given_again())
    or not known and ARGV[8] ~= '' and get('life') < tonumber(ARGV[9])
  local jumped = known and ARGV[11] == '1'
  if back then
    spoil()
    go_on_with_journal()
    distrust_filters()
  end
  if back or jumped then
    distrust_marks()
    begin_anew()
  end
end
local incarnation = meta.inc
-- A rebuild of an earlier incarnation cannot go live any more (rebuild/swap.lua), so its lease ends.
if incarnation == ARGV[3] then redis.call('DEL', KEYS[4]) end
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
-- All marks last as long as the process needs that asks for the longest. Those that are set are too short for
-- one that asks for more: no nulls until they would have ended. A process asks with each poll. When none has asked for
-- as much for that long, and for 20 s more (of many shards each has its turn within 16), the longest is the heir, which the
-- others have asked for since.
local reach, asked = get('reach'), tonumber(ARGV[4])
local function reaches(life)
  set('reach', life, 'stated', string.format('%.0f', now), 'heir', 0)
end
if has_say and asked > reach then
  if reach > 0 then raise('blind', now + asked) end
  reaches(ARGV[4])
elseif has_say and asked == reach then
  if now - before_now('stated') > 1000 then reaches(ARGV[4]) end
elseif has_say then
  raise('heir', asked)
  if now - get('stated') > reach + 20000 then reaches(string.format('%.0f', get('heir'))) end
end
local function last_dropped()
  local oldest = oldest_entry()
  if not oldest then return string.format('%.0f', get('seq') > 0 and get('last') or 0) end
  local before = tonumber(oldest.p or '')
  return oldest.s == '1' and '0' or before and string.format('%.0f', before) or ''
end
return {
  kid,
  meta.key or '',
  incarnation,
  string.format('%.0f', math.max(0, now - get('since'))),
  meta.live or '0',
  string.format('%.0f', get('life')),
  string.format('%.0f', get('seq')),
  string.format('%.0f', get('last')),
  time[1], time[2],
  string.format('%.0f', reach),
  string.format('%.0f', settles),
  mode,
  string.format('%.0f', mode_at),
  last_dropped(),
}
