-- KEYS: 1 the fence's key. ARGV: 1 the fence the ledger has seen.
-- Returns {fence}: what is stored now, at least the given one.
-- Atomic because a fence must never be set back by a racing acquisition.
local stored = tonumber(redis.call('GET', KEYS[1]) or '0')
local fence = math.max(stored, tonumber(ARGV[1]))
redis.call('SET', KEYS[1], string.format('%.0f', fence), 'EX', 604800)
return {fence}
