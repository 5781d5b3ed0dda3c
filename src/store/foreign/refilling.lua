-- Whether a refill's word stands, and was renewed lately: else a copy that was made since would not show.
local function stands(word)
  local on, at = unpack(redis.call('HMGET', KEYS[1], 'on', 'at'))
  local time = redis.call('TIME')
  local age = time[1] * 1000000 + time[2] - (tonumber(at) or 0)
  return on == word and age >= 0 and age <= 3000000
end

-- Whether the ids of a module's seal are in its filter, and no fewer others than before.
local function is_sealed(seal)
  for _, one in ipairs(redis.call('BF.MEXISTS', KEYS[2], unpack(seal))) do
    if one ~= 1 and one ~= true then return false end
  end
  local info, ids = redis.call('BF.INFO', KEYS[2]), nil
  for at = 1, #info, 2 do
    local name = type(info[at]) == 'table' and info[at].ok or info[at]
    if name == 'Number of items inserted' then ids = tonumber(info[at + 1]) end
  end
  if not ids or ids < tonumber(redis.call('HMGET', KEYS[1], 'floor')[1] or '0') then return false end
  redis.call('HSET', KEYS[1], 'floor', ids)
  return true
end
