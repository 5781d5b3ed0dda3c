-- Acknowledges ids: each gets a number in the record of recent inserts, and its bits in every filter that needs them.
-- Nothing here creates or grows a filter.
--
-- KEYS[1] meta   KEYS[2] recent   KEYS[3] bits   KEYS[4] next   KEYS[5] lock
-- KEYS[6], KEYS[7] strings that are there only while this runs   KEYS[8..] the ids' null keys
-- ARGV[1]  the incarnation that the caller has joined
-- ARGV[2]  how far back the record has to reach, ms   ARGV[3] one more than the ids that it may hold
-- ARGV[4]  the digests, 16 bytes each
-- ARGV[5]  the live key's first 64 bytes as the caller knows them   ARGV[6] its length
-- ARGV[7]  bits to set in it, block by block: the offset, u32 big-endian, and a mask of 64 bytes; '' if it is no filter
-- ARGV[8]  to ARGV[10]: the same for the filter being built
-- ARGV[11] the last number that the caller knows
-- ARGV[12] how long scans wait for the next call of this replay, ms; '' if this is no replay
-- Returns {'OK', the last of their numbers, 1 if the live filter lacked any of them}. Where nothing was inserted: {'OTHER'} in
-- another incarnation or where the data have gone back, {'STALE'} where a filter is another than the caller knows.
local meta = redis.call('HMGET', KEYS[1], 'inc', 'last', 'reach', 'hold', 'heir')
if meta[1] ~= ARGV[1] then return {'OTHER'} end
local before = tonumber(meta[2] or '0')
local time = redis.call('TIME')
local now, micros = time[1] * 1000 + math.floor(time[2] / 1000), time[1] * 1000000 + time[2]
local function number(of) return string.format('%.0f', of) end

local function look(key)
  if redis.call('TYPE', key).ok ~= 'string' then return '', 0 end
  return redis.call('GETRANGE', key, 0, 63), redis.call('STRLEN', key)
end

local LIVE, BUILDING = 0x55, 0x33
local function is_whole(head, len, state)
  if #head < 64 or string.sub(head, 1, 11) ~= 'BLMGUARD\0\2\1' or string.byte(head, 12) ~= state then
    return false
  end
  local a, b, c, d = string.byte(head, 33, 36)
  return len == 192 + 64 * (((a * 256 + b) * 256 + c) * 256 + d)
end
local function stamp_of(key)
  local high, low = struct.unpack('>I4I4', redis.call('GETRANGE', key, 64, 71))
  return high * 4294967296 + low
end

local head, len = look(KEYS[3])
local next_head, next_len = look(KEYS[4])
local stamp = is_whole(head, len, LIVE) and stamp_of(KEYS[3]) or before
-- The next join finds it, too: with the numbers of this insert it would not.
if math.max(stamp, ARGV[11]) > before then return {'OTHER'} end
-- A filter that was away, or is an older copy, lacks inserts: 0 is no state.
if stamp < before then
  redis.call('SETRANGE', KEYS[3], 11, '\0')
  head = look(KEYS[3])
end
-- One that is built under no lease goes live no more.
if next_head ~= '' then
  local nonce = string.gsub(string.sub(next_head, 25, 32), '.', function(byte)
    return string.format('%02x', string.byte(byte))
  end)
  if nonce == '' or string.sub(redis.call('GET', KEYS[5]) or '', 1, 16) ~= nonce then
    redis.call('DEL', KEYS[4])
    next_head, next_len = '', 0
  end
end
-- The length counts, too: a filter that the caller saw cut short may be whole again.
local building = is_whole(next_head, next_len, BUILDING)
if head ~= ARGV[5] or len ~= tonumber(ARGV[6])
  or building and (next_head ~= ARGV[8] or next_len ~= tonumber(ARGV[9])) then
  return {'STALE'}
end

redis.call('DEL', unpack(KEYS, 8))
if ARGV[12] ~= '' and now + ARGV[12] > tonumber(meta[4] or '0') then
  redis.call('HSET', KEYS[1], 'hold', number(now + ARGV[12]))
end
-- Where the greatest score is not the last number, record or metadata are lost or older copies: inserts up to here may be missing.
local last = before
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if tonumber(top[2] or '0') ~= last then
  last = math.max(last, tonumber(top[2] or '0'))
  redis.call('ZADD', KEYS[2], number(last), 'floor')
end
local first = math.max(last + 1, micros)
local entries = {}
for i = 1, #ARGV[4], 16 do
  last = first + #entries / 2
  entries[#entries + 1] = number(last)
  entries[#entries + 1] = string.sub(ARGV[4], i, i + 15)
end
redis.call('ZADD', KEYS[2], unpack(entries))
redis.call('HSET', KEYS[1], 'last', number(last))
-- Entries go that are old or too many; the floor, an entry itself, says up to which number.
local reach, heir, asked = tonumber(meta[3] or '0'), tonumber(meta[5] or '0'), tonumber(ARGV[2])
if asked > reach then redis.call('HSET', KEYS[1], 'reach', ARGV[2]) end
if heir > 0 and asked > heir then redis.call('HSET', KEYS[1], 'heir', ARGV[2]) end
reach = math.max(reach, asked)
local old = redis.call('ZCOUNT', KEYS[2], '-inf', number(micros - reach * 1000))
local drop = math.min(old, 512)
local excess = redis.call('ZCARD', KEYS[2]) - ARGV[3]
if excess > 0 then drop = math.max(drop, excess + 1) end
if drop > 1 then
  local youngest = redis.call('ZRANGE', KEYS[2], drop - 1, drop - 1, 'WITHSCORES')
  local floor = tonumber(redis.call('ZSCORE', KEYS[2], 'floor') or '0')
  redis.call('ZREMRANGEBYRANK', KEYS[2], 0, drop - 1)
  redis.call('ZADD', KEYS[2], number(math.max(floor, tonumber(youngest[2]))), 'floor')
end

-- All blocks in one BITOP: word by word, Lua would take longer than all else here.
local function add_to(key, blocks)
  local offsets, bits, masks = {}, {}, {}
  for i = 1, #blocks, 68 do
    local at = struct.unpack('>I4', blocks, i)
    offsets[#offsets + 1] = at
    bits[#bits + 1] = redis.call('GETRANGE', key, at, at + 63)
    masks[#masks + 1] = string.sub(blocks, i + 4, i + 67)
  end
  redis.call('SET', KEYS[6], table.concat(bits))
  redis.call('SET', KEYS[7], table.concat(masks))
  redis.call('BITOP', 'OR', KEYS[6], KEYS[6], KEYS[7])
  local both = redis.call('GET', KEYS[6])
  redis.call('DEL', KEYS[6], KEYS[7])
  for i, at in ipairs(offsets) do
    redis.call('SETRANGE', key, at, string.sub(both, 64 * i - 63, 64 * i))
  end
  redis.call('SETRANGE', key, 64, struct.pack('>I4I4', math.floor(last / 4294967296), last % 4294967296))
  return both ~= table.concat(bits)
end
local lacked = false
if ARGV[7] ~= '' then
  lacked = add_to(KEYS[3], ARGV[7])
elseif #head == 64 and string.byte(head, 12) == LIVE then
  -- Processes with another secret key, or with a header read before it was damaged, may take it for a filter: it lacks these ids.
  redis.call('SETRANGE', KEYS[3], 11, '\0')
end
-- A building filter that lacks this add keeps a lower stamp, and goes live no more.
if building and ARGV[10] ~= '' and stamp_of(KEYS[4]) == before then
  add_to(KEYS[4], ARGV[10])
end
return {'OK', number(last), lacked and 1 or 0}
