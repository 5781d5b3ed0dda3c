-- Joins this filter's metadata, or creates them, and looks whether the data have gone back in time: on a new connection, and with
-- polls. For an observer it writes nothing.
--
-- KEYS[1] meta   KEYS[2] recent   KEYS[3] bits   KEYS[4] next   KEYS[5] lock
-- ARGV[1] id of the caller's secret key, 8 hex digits   ARGV[2] the key itself (16 bytes) when it was drawn, '' when it was given
-- ARGV[3] 16 random bytes for a new incarnation; '' of an observer   ARGV[4] how far back the record has to reach, ms
-- ARGV[5] the Redis process that answers, 8 hex digits
-- ARGV[6] the incarnation that holds all recent inserts of the caller, '' if it has none
-- ARGV[7] how long scans wait for a caller that has inserts to repeat here, ms
-- ARGV[8] the incarnation that the caller knows, or ''   ARGV[9] its first number   ARGV[10] its last number that the caller knows
-- ARGV[11] '1' if the caller has seen the clock jump in it, else ''   ARGV[12] for how long a new filter settles, ms
-- ARGV[13] what the caller knows of that: '' nothing, '0' the filter has settled, else for how long it still settles, ms
-- ARGV[14] the letter of the newest mode that the caller knows, or ''   ARGV[15] its number
-- ARGV[16] when the caller was last told by this script, by the clock of the Redis that answered, ms
-- Returns {key id, key or '', incarnation, its age in ms, the last generation that went live or '0', the incarnation's first number,
-- the last number, TIME s, µs, how far back the record reaches, ms, the moment in ms until which the filter settles, or 0, the letter
-- of the fleet's mode, its number, how many ids the record holds, the number up to which inserts may be missing in it, or '0'}.
local observes, EXACT = ARGV[3] == '', 9007199254740991
local time = redis.call('TIME')
local now, micros = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]
-- Keys of another type make way, and metadata with a field that the guard never writes.
for i, ours in pairs(observes and {} or {[1] = 'hash', [2] = 'zset', [5] = 'string'}) do
  local kind = redis.call('TYPE', KEYS[i]).ok
  if kind ~= 'none' and kind ~= ours then redis.call('RENAME', KEYS[i], KEYS[i] .. ':aside') end
end
local FIELDS, TEXTS = {'inc', 'run', 'kid', 'key', 'mode', 'last', 'began', 'since', 'live', 'epoch', 'asked', 'reach', 'heir',
  'polled', 'settles', 'mode_at', 'hold', 'unvouched'}, 5
local meta, is_ours, MOST = {}, true, {reach = 1e10, heir = 1e10}
for i, value in ipairs(redis.call('HMGET', KEYS[1], unpack(FIELDS))) do
  if i > TEXTS then
    value = tonumber(string.match(value or '0', '^%d+$') or EXACT + 1)
    is_ours = is_ours and value <= (MOST[FIELDS[i]] or EXACT)
  end
  meta[FIELDS[i]] = value
end
is_ours = is_ours and string.match(meta.kid or '00000000', '^%x%x%x%x%x%x%x%x$') and string.match(meta.mode or 'e', '^[eso]$')
if observes and not (is_ours and meta.kid and meta.inc) then return redis.error_reply('ERR there is no filter of this name') end
if not is_ours then
  redis.call('RENAME', KEYS[1], KEYS[1] .. ':aside')
  for i, field in ipairs(FIELDS) do meta[field] = i > TEXTS and 0 end
end
local function text(number) return string.format('%.0f', number) end
local function set(field, value)
  redis.call('HSET', KEYS[1], field, type(value) == 'number' and text(value) or value)
  meta[field] = value
end
local function raise(field, value)
  if value > meta[field] then set(field, value) end
end
local head = redis.call('TYPE', KEYS[3]).ok == 'string' and redis.call('GETRANGE', KEYS[3], 0, 71) or ''
-- In any state; also of an earlier version.
local is_filter = #head == 72 and string.sub(head, 1, 9) == 'BLMGUARD\0' and string.byte(head, 10) <= 2
local function number(at)
  local high, low = struct.unpack('>I4I4', head, at)
  return high < 2097152 and high * 4294967296 + low or 0
end
local stamp = is_filter and number(65) or 0
local is_live = is_filter and string.sub(head, 10, 12) == '\2\1\85'
local reach = meta.reach
local function joined()
  local is_record = redis.call('TYPE', KEYS[2]).ok == 'zset'
  local floor = tonumber(is_record and redis.call('ZSCORE', KEYS[2], 'floor') or meta.began)
  local ids = is_record and math.max(0, redis.call('ZCARD', KEYS[2]) - 1) or 0
  return {meta.kid, meta.key or '', meta.inc, text(math.max(0, now - meta.since)), text(meta.live), text(meta.began), text(meta.last),
    time[1], time[2], text(reach), text(meta.settles), meta.mode or 'e', text(meta.mode_at), text(ids),
    floor == meta.began and '0' or text(floor)}
end
if observes then
  -- A process that joins puts this filter out of use.
  if is_filter and stamp ~= meta.last then meta.live = EXACT end
  return joined()
end

local is_new = not meta.inc
if not meta.kid then
  set('kid', ARGV[1])
  if ARGV[2] ~= '' then set('key', ARGV[2]) end
  -- It may hold digests of another key, which say nothing under this one.
  redis.call('DEL', KEYS[2])
end
local is_known = meta.inc == ARGV[8]
local is_back = is_live and stamp > meta.last or is_known and meta.last < tonumber(ARGV[10])
  or not is_known and ARGV[8] ~= '' and meta.began < tonumber(ARGV[9])
local is_other = is_new or meta.run ~= ARGV[5] or is_back or is_known and ARGV[11] == '1'
-- 0 is no state: no check takes the filter for live. An earlier version takes it for a later one's, and inserts no more.
-- Metadata or a filter of before the last swap may have the same stamp.
if is_filter and is_other or is_live and (stamp ~= meta.last or number(17) ~= meta.live) then
  redis.call('SETRANGE', KEYS[3], 8, '\0\2\1\0')
end
if is_other then
  -- No earlier filter is trusted, should it come back, later ones get newer tokens, and for who begins now there was one.
  if not is_new or ARGV[8] ~= '' then
    raise('live', micros)
    raise('epoch', micros)
  end
  -- Numbers begin above all before, wherever they are found. The record may lack earlier inserts.
  local greatest = tonumber(redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2] or '0')
  local first = math.max(micros, 1 + math.max(meta.last, stamp, greatest <= EXACT and greatest or 0, tonumber(ARGV[10])))
  set('inc', ARGV[3])
  set('run', ARGV[5])
  set('began', first)
  set('last', first)
  set('since', now)
  redis.call('ZADD', KEYS[2], text(first), 'floor')
  -- A rebuild of an earlier incarnation cannot go live any more (rebuild/swap.lua).
  redis.call('DEL', KEYS[4], KEYS[5])
end
-- What is built under no lease goes live no more.
if redis.call('EXISTS', KEYS[5]) == 0 then redis.call('DEL', KEYS[4]) end
if ARGV[6] ~= meta.inc and ARGV[6] ~= '' then raise('hold', now + ARGV[7]) end
-- A process with another secret key has no say in what follows.
if meta.kid ~= ARGV[1] and (ARGV[2] == '' or not meta.key) then return joined() end
-- A filter settles while processes may run that do not insert into it: when its metadata are made, or no process has polled them
-- for a minute. What a caller knows of an earlier incarnation counts, unless others have polled since it was told. A swap ends
-- settling (swap.lua).
local MINUTE, LATE, WEEK = 60000, 5000, 604800000
-- A moment that is still to come was written before the clock was set back.
local polled = meta.polled <= now + 1000 and meta.polled or 0
local rest, settles, is_another = tonumber(ARGV[13]), meta.settles, meta.inc ~= ARGV[8]
local begins = is_new or now - polled > MINUTE
-- None settles for more than a week: the clock was set back.
if settles > now + WEEK + MINUTE then settles, begins = 0, true end
if rest and polled - ARGV[16] <= MINUTE - LATE then
  -- A rest of 1 says that the time is over: it must not be moved behind a rebuild that goes on.
  local ends = rest > 0 and now + rest or 0
  if settles == 0 and (begins or is_another) or is_another and rest ~= 1 and math.abs(ends - settles) > 2000 then
    settles = ends
  end
elseif begins and ARGV[12] ~= '0' then
  -- Who knows nothing does not end sooner what goes on.
  settles = math.max(settles, now + ARGV[12], now + (rest or 0))
elseif rest and rest > 1 and is_another and settles > 0 then
  -- Where the clock was set forward, all seem to have been told long ago.
  settles = math.max(settles, now + rest)
end
if settles ~= meta.settles then set('settles', settles) end
if now - polled > LATE then set('polled', now) end
-- Of two modes of one number the one that refuses nothing: its letter is behind `e`.
local number = tonumber(ARGV[15])
if ARGV[14] ~= '' and (number > meta.mode_at or number == meta.mode_at and ARGV[14] > (meta.mode or 'e')) then
  set('mode', ARGV[14])
  set('mode_at', number)
end
-- The record reaches as far back as any process asks. While an operator's call is under way, the most asked for may replace that
-- (change_fleet.lua).
raise('reach', tonumber(ARGV[4]))
if meta.heir > 0 then raise('heir', tonumber(ARGV[4])) end
return joined()
