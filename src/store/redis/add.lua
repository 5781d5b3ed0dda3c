-- Acknowledges ids: create marks, journal, then the bits of every filter that needs them.
-- Nothing here creates or grows a filter.
--
-- KEYS[1] meta   KEYS[2] log   KEYS[3] bits   KEYS[4] next   KEYS[5] marks
-- KEYS[6], KEYS[7] strings that are there only while this runs   KEYS[8..] the ids' null keys
-- ARGV[1]  id of the secret key the digests were made with, 8 hex digits
-- ARGV[2]  least life of a create mark, ms
-- ARGV[3]  how long a rebuild may take at the least, ms: the journal is kept as much longer
-- ARGV[4]  greatest number of journal entries
-- ARGV[5]  the digests, 16 bytes each
-- ARGV[6]  the live key's first 64 bytes as the caller knows them, '' if there are none
-- ARGV[7]  the live key's length as the caller knows it
-- ARGV[8]  bits to set in the live filter, block by block: the block's offset, u32 big-endian, and a mask of
--          64 bytes; '' if it is no filter
-- ARGV[9]  to ARGV[11]: the same for the filter being built
-- ARGV[12] how long swaps wait for the next call of this replay, ms; '' if this is no replay
-- ARGV[13] how many marks there may be for these ids to get their own
-- Returns {'OK', seq, when the entry was written, ms}; {'KEY'} when the digests' key is not this filter's; or
-- {'STALE', the fields of view.lua} when a filter is another than the caller computed bits for. Then nothing was
-- inserted, and the caller has to compute the bits anew and try again.
if redis.call('HGET', KEYS[1], 'kid') ~= ARGV[1] then return {'KEY'} end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local seq = tonumber(redis.call('HGET', KEYS[1], 'seq') or '0')

local function look(key)
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'string' then return kind, '', 0 end
  return kind, redis.call('GETRANGE', key, 0, 63), redis.call('STRLEN', key)
end

-- A live filter holds the number of the last entry that was written, its stamp, behind its header.
local LIVE, CATCHING_UP = 0x55, 0x33
local function has_stamp(head, len)
  if #head < 64 or string.sub(head, 1, 11) ~= 'BLMGUARD\0\1\1' or string.byte(head, 12) ~= LIVE then
    return false
  end
  local a, b, c, d = string.byte(head, 33, 36)
  return len == 192 + 64 * (((a * 256 + b) * 256 + c) * 256 + d)
end
local function stamp(number)
  return struct.pack('>I4I4', math.floor(number / 4294967296), number % 4294967296)
end

local kind, head, len = look(KEYS[3])
local next_kind, next_head, next_len = look(KEYS[4])
-- A filter that was away, or is an older copy, lacks what was added meanwhile: 0 is no state.
if has_stamp(head, len) and redis.call('GETRANGE', KEYS[3], 64, 71) ~= stamp(seq) then
  redis.call('SETRANGE', KEYS[3], 11, '\0')
  kind, head, len = look(KEYS[3])
end
-- The building filter takes adds once it is catching up; before that the upload owns it. The length counts,
-- too: a filter that the caller saw cut short, and that is whole again, needs the bits.
local catching_up = #next_head == 64 and string.byte(next_head, 12) == CATCHING_UP
if head ~= ARGV[6] or len ~= tonumber(ARGV[7])
  or (catching_up and (next_head ~= ARGV[9] or next_len ~= tonumber(ARGV[10]))) then
  return {'STALE', kind, head, len, next_kind, next_head, next_len, time[1], time[2]}
end

-- The marks lie in one key without a TTL, which volatile-* eviction cannot take.
redis.call('DEL', unpack(KEYS, 8))
local function raise(field, moment)
  if moment > tonumber(redis.call('HGET', KEYS[1], field) or '0') then
    redis.call('HSET', KEYS[1], field, moment)
  end
end
if ARGV[12] ~= '' then raise('hold', now + ARGV[12]) end
-- The last mark must be there and is not: the key was lost, or is an older copy of itself. A new last mark must not
-- hide that.
local marked = tonumber(redis.call('HGET', KEYS[1], 'marked') or '0')
if marked > now and redis.call('ZCOUNT', KEYS[5], marked, '+inf') == 0 then raise('blind', marked) end
-- The longest mark that any process has asked for (incarnation/join.lua). Marks last as long, and rebuilds read
-- the journal from half as long ago (rebuild/lease.lua). It covers the end of the insert's transaction, and a late
-- removal that tells of an earlier deletion.
local reach = math.max(ARGV[2], tonumber(redis.call('HGET', KEYS[1], 'reach') or '0'))
local ends = now + reach
local over = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', now, 'LIMIT', 0, 256)
if #over > 0 then redis.call('ZREM', KEYS[5], unpack(over)) end
if redis.call('ZCARD', KEYS[5]) < tonumber(ARGV[13]) then
  local scores = {}
  for i = 1, #ARGV[5], 16 do
    scores[#scores + 1] = ends
    scores[#scores + 1] = string.sub(ARGV[5], i, i + 15)
  end
  redis.call('ZADD', KEYS[5], 'GT', unpack(scores))
  raise('marked', ends)
else
  -- An id without a mark could be hidden by a null: no nulls until its mark would have ended.
  raise('blind', ends)
end

seq = redis.call('HINCRBY', KEYS[1], 'seq', 1)
local before = redis.call('HGET', KEYS[1], 'last') or '0'
-- Or for as long as another process's rebuild may take, if that is longer (rebuild/lease.lua).
local span = math.max(ARGV[3], tonumber(redis.call('HGET', KEYS[1], 'span') or '0'))
local oldest = string.format('%.0f', now - reach - span)
local id = redis.call('XADD', KEYS[2], 'MINID', '~', oldest, '*',
  'k', 'a', 'i', ARGV[1], 's', seq, 'p', before, 'd', ARGV[5])
redis.call('HSET', KEYS[1], 'last', string.match(id, '^%d+'))
if seq % 64 == 0 then redis.call('XTRIM', KEYS[2], 'MAXLEN', '~', ARGV[4]) end

-- Where the caller finds no filter to add to, others may: those that read the header before it was damaged, or
-- that know another secret key. So it must not answer for this add. Every check reads the state, and so does the
-- swap.
--
-- All blocks are put together for one BITOP: word by word, Lua would take longer than all else here.
local function add_to(key, head, blocks, state)
  local offsets, bits, masks = {}, {}, {}
  for i = 1, #blocks, 68 do
    local at = struct.unpack('>I4', blocks, i)
    offsets[#offsets + 1] = at
    bits[#bits + 1] = redis.call('GETRANGE', key, at, at + 63)
    masks[#masks + 1] = string.sub(blocks, i + 4, i + 67)
  end
  if #offsets > 0 then
    redis.call('SET', KEYS[6], table.concat(bits))
    redis.call('SET', KEYS[7], table.concat(masks))
    redis.call('BITOP', 'OR', KEYS[6], KEYS[6], KEYS[7])
    local both = redis.call('GET', KEYS[6])
    redis.call('DEL', KEYS[6], KEYS[7])
    for i, at in ipairs(offsets) do
      redis.call('SETRANGE', key, at, string.sub(both, 64 * i - 63, 64 * i))
    end
  end
  if blocks == '' and #head == 64 and string.byte(head, 12) == state then
    redis.call('SETRANGE', key, 11, '\0')
  end
end
add_to(KEYS[3], head, ARGV[8], LIVE)
if ARGV[8] ~= '' then redis.call('SETRANGE', KEYS[3], 64, stamp(seq)) end
if catching_up then
  add_to(KEYS[4], next_head, ARGV[11], CATCHING_UP)
else
  -- A building filter that is away for a moment must not go live without this add (rebuild/swap.lua).
  redis.call('HSET', KEYS[1], 'not_in_next', seq)
end
return {'OK', seq, string.match(id, '^%d+')}
