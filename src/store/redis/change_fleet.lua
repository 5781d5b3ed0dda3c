-- Changes how all processes of a filter act.
--
-- KEYS[1] meta
-- ARGV[1] id of the caller's secret key, 8 hex digits
-- ARGV[2] the letter of the mode from now on; '' to leave it
-- ARGV[3] the number of the mode that this replaces; '' to replace any
-- ARGV[4] the filter has settled, if the live one's rebuild began after this moment, µs; '' to leave that
-- ARGV[5] the incarnation in which number and moment were read; '' if neither is given
-- ARGV[6] '1' if a rebuild is asked for, else ''
-- ARGV[7] '1' to say only what would be returned, else ''   ARGV[8] latest moment for it, µs: late, it would undo others' changes
-- Returns {'OK', the mode's number}; {'OVERTAKEN'} where another has changed the mode, the metadata are others, or an older
-- filter is live; {'LATE'}; {'KEY'} when the caller's key is not this filter's. Nothing was changed then.
if redis.call('HGET', KEYS[1], 'kid') ~= ARGV[1] then return {'KEY'} end
local time, meta = redis.call('TIME'), redis.call('HMGET', KEYS[1], 'inc', 'mode_at', 'live', 'heir')
if time[1] * 1000000 + time[2] > tonumber(ARGV[8]) then return {'LATE'} end
if ARGV[5] ~= '' and meta[1] ~= ARGV[5] then return {'OVERTAKEN'} end
if ARGV[3] ~= '' and (meta[2] or '0') ~= ARGV[3] then return {'OVERTAKEN'} end
if ARGV[4] ~= '' and tonumber(meta[3] or '0') <= tonumber(ARGV[4]) then return {'OVERTAKEN'} end
if ARGV[7] == '1' then return {'OK', meta[2] or '0'} end
if ARGV[4] ~= '' then
  -- The caller has waited for the longest transaction until now, and each process has said since what it needs.
  if tonumber(meta[4] or '0') > 1 then redis.call('HSET', KEYS[1], 'reach', meta[4], 'heir', '0') end
  redis.call('HSET', KEYS[1], 'settles', '0')
end
if ARGV[6] == '1' then
  -- Where the clock was set back, tokens are ahead of it. A rebuild that is under way has begun too early.
  local asked = math.max(time[1] * 1000000 + time[2], tonumber(redis.call('HGET', KEYS[1], 'epoch') or '0'))
  redis.call('HSET', KEYS[1], 'asked', string.format('%.0f', asked))
end
if ARGV[2] ~= '' then
  local number = math.max(time[1] * 1000000 + time[2], tonumber(meta[2] or '0') + 1)
  redis.call('HSET', KEYS[1], 'mode', ARGV[2], 'mode_at', string.format('%.0f', number))
end
return {'OK', redis.call('HGET', KEYS[1], 'mode_at') or '0'}
