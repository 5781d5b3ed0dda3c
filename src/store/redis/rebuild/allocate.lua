-- Allocate: resets the building filter, unless a newer rebuild owns it, and allocates it in one step.
--
-- KEYS[1] next
-- ARGV[1] header (64 bytes, loading state)   ARGV[2] trailer (64 bytes)
-- ARGV[3] length of the whole filter in bytes
-- ARGV[4] the building key's first 64 bytes if the caller found them to be damaged, else ''
-- Returns 'OK' or 'FENCED'.
-- A header's token; 0 where it is cut short. It is no more than 2^53, so a number holds it. Lua would order strings
-- as the server's locale does.
local function token(head)
  if #head < 24 then return 0 end
  local high, low = struct.unpack('>I4I4', head, 17)
  return high * 4294967296 + low
end
if redis.call('TYPE', KEYS[1]).ok == 'string' then
  local head = redis.call('GETRANGE', KEYS[1], 0, 63)
  if string.sub(head, 1, 8) == string.sub(ARGV[1], 1, 8) and head ~= ARGV[4] then
    local theirs, ours = token(head), token(ARGV[1])
    local same = string.sub(head, 17, 32) == string.sub(ARGV[1], 17, 32)
    -- Equal tokens with different nonces: a failover lost one rebuild's epoch. Neither may go on.
    if theirs > ours or (theirs == ours and not same) then return 'FENCED' end
  end
end
redis.call('DEL', KEYS[1])
redis.call('SETRANGE', KEYS[1], ARGV[3] - 64, ARGV[2])
redis.call('SETRANGE', KEYS[1], 0, ARGV[1])
return 'OK'
