-- Inserts ids into a module's filter, if it still is the one that the refill has sealed. Behind `refilling.lua`.
--
-- KEYS[1] the statement   KEYS[2] the key
-- ARGV[1] the refill's word   ARGV[2] how many ids the seal has   ARGV[3…] these, and behind them the others
-- Returns what the module says of each, or 0 if it is another.
local first = 3 + ARGV[2]
if not stands(ARGV[1]) or not is_sealed({unpack(ARGV, 3, first - 1)}) then return 0 end
return redis.call('BF.INSERT', KEYS[2], 'NOCREATE', 'ITEMS', unpack(ARGV, first))
