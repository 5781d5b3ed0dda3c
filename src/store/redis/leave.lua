-- Puts a header in the live filter's place that says that it was left for another one. No filter is newer.
--
-- KEYS[1] bits   KEYS[2] next   KEYS[3] meta
-- ARGV[1] id of the caller's secret key, 8 hex digits   ARGV[2] the header
-- Returns 'OK'; or 'KEY' when the caller's key is not this filter's, and nothing was changed. May be repeated.
if redis.call('HGET', KEYS[3], 'kid') ~= ARGV[1] then return 'KEY' end
redis.call('DEL', KEYS[2])
redis.call('SET', KEYS[1], ARGV[2])
return 'OK'
