-- KEYS: 1 the segment. ARGV: none.
-- Returns {1, available, round, 1 if a round is open else 0, settled fence}, or {0} when missing.
-- Atomic because the four fields are compared with the ledger as one snapshot.
local segment = redis.call('HMGET', KEYS[1], 'available', 'round', 'open', 'settled')
if not (segment[1] and segment[2] and segment[3] and segment[4]) then
  return {0}
end
local open = segment[3] == '' and 0 or 1
return {1, tonumber(segment[1]), tonumber(segment[2]), open, tonumber(segment[4])}
