-- Allocate: resets the building filter, unless a newer rebuild owns it, and allocates it in one step.
--
-- KEYS[1] next
-- ARGV[1] header (64 bytes, loading state)   ARGV[2] trailer (64 bytes)
-- ARGV[3] length of the whole filter in bytes
-- ARGV[4] the building key's first 64 bytes if the caller found them to be damaged, else ''
-- Returns 'OK' or 'FENCED'.
if redis.call('TYPE', KEYS[1]).ok == 'string' then
  local head = redis.call('GETRANGE', KEYS[1], 0, 63)
  -- Generations are positive, so their big-endian bytes sort as they do.
  if string.sub(head, 1, 8) == string.sub(ARGV[1], 1, 8) and head ~= ARGV[4] then
    local theirs, ours = string.sub(head, 17, 24), string.sub(ARGV[1], 17, 24)
    local same = string.sub(head, 17, 32) == string.sub(ARGV[1], 17, 32)
    -- Equal tokens with different nonces: a failover lost one rebuild's epoch. Neither may go on.
    if theirs > ours or (theirs == ours and not same) then return 'FENCED' end
  end
end
redis.call('DEL', KEYS[1])
redis.call('SETRANGE', KEYS[1], ARGV[3] - 64, ARGV[2])
redis.call('SETRANGE', KEYS[1], 0, ARGV[1])
return 'OK'
