-- Joins this filter's metadata, or creates it. It is the first command on a new connection after INFO and
-- TIME.
--
-- KEYS[1] meta   KEYS[2] log   KEYS[3] bits   KEYS[4] lock
-- ARGV[1] id of the caller's secret key, 8 hex digits
-- ARGV[2] the secret key itself (16 bytes) when it was drawn, '' when the application gave it
-- ARGV[3] 16 random bytes: the incarnation, should this be a new one
-- ARGV[4] life of a create mark, ms   ARGV[5] the Redis process that answers, 8 hex digits
-- ARGV[6] the incarnation that holds all recent adds of the caller, '' if the caller has added nothing
-- ARGV[7] how long swaps wait for a caller that has adds to replay here, ms
-- Returns {key id, key or '', incarnation, its age in ms, the last generation that went live or '0'}.
--
-- An incarnation ends with the metadata and with the Redis process. What was acknowledged before may be
-- lost, and every process replays its recent adds (rebuild/swap.lua gives them time).
--
-- A new incarnation goes on with the numbers of a surviving journal. So a lost meta key cannot make two
-- entries share a number.
local key_of_log = ARGV[1]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function raise(field, moment)
  if moment > tonumber(redis.call('HGET', KEYS[1], field) or '0') then
    redis.call('HSET', KEYS[1], field, string.format('%.0f', moment))
  end
end
if redis.call('HSETNX', KEYS[1], 'inc', ARGV[3]) == 1 then
  -- What is known of marks may be lost with the metadata: no nulls until all marks would have ended.
  if redis.call('EXISTS', KEYS[2], KEYS[3]) > 0 then
    raise('blind', now + ARGV[4])
  end
  local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
  if last then
    local fields = last[2]
    for i = 1, #fields, 2 do
      if fields[i] == 'i' then key_of_log = fields[i + 1] end
      if fields[i] == 's' then redis.call('HSETNX', KEYS[1], 'seq', fields[i + 1]) end
    end
    redis.call('HSETNX', KEYS[1], 'last', string.match(last[1], '^%d+'))
  end
end
if redis.call('HSETNX', KEYS[1], 'kid', ARGV[1]) == 1 then
  if ARGV[2] ~= '' then redis.call('HSET', KEYS[1], 'key', ARGV[2]) end
  if key_of_log ~= ARGV[1] then
    -- The journal holds digests of another key, which prove nothing under this one: that is a gap.
    redis.call('DEL', KEYS[2])
    redis.call('HSET', KEYS[1], 'last', string.format('%.0f', now))
    redis.call('HINCRBY', KEYS[1], 'seq', 1)
  end
end
if redis.call('HGET', KEYS[1], 'run') ~= ARGV[5] then
  redis.call('HSET', KEYS[1], 'inc', ARGV[3], 'run', ARGV[5], 'since', string.format('%.0f', now))
end
local incarnation = redis.call('HGET', KEYS[1], 'inc')
-- A rebuild of an earlier incarnation cannot go live any more (rebuild/swap.lua), so its lease ends.
if incarnation == ARGV[3] then redis.call('DEL', KEYS[4]) end
if ARGV[6] ~= incarnation and ARGV[6] ~= '' then
  raise('hold', now + ARGV[7])
end
-- All marks last as long as the process needs that asks for the longest. Those that are set are too short for
-- one that asks for more: no nulls until they would have ended.
local reach = tonumber(redis.call('HGET', KEYS[1], 'reach') or '0')
if tonumber(ARGV[4]) > reach then
  if reach > 0 then raise('blind', now + ARGV[4]) end
  redis.call('HSET', KEYS[1], 'reach', ARGV[4])
end
return {
  redis.call('HGET', KEYS[1], 'kid'),
  redis.call('HGET', KEYS[1], 'key') or '',
  incarnation,
  math.max(0, now - redis.call('HGET', KEYS[1], 'since')),
  redis.call('HGET', KEYS[1], 'live') or '0',
}
