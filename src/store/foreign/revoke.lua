-- Takes a statement back, unless another has taken its place.
--
-- KEYS[1] the statement   ARGV[1] its field   ARGV[2] what it was
-- Returns 1 if it was there.
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then
  return redis.call('DEL', KEYS[1])
end
return 0
