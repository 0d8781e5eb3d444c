-- Keeps a request that is released without a hold, for a minute, so that refuse_released.lua
-- refuses it should it still be on its way. The '-' tells it from a request whose hold was given
-- back. DEL comes first because a full Redis lets a script write only if the first write needs no
-- memory.
-- KEYS, ARGV: none of its own. It uses the locals `call` (redis.call), `released_key` and
-- `request`. Returns nothing.
call('DEL', released_key)
call('SET', released_key, '-' .. request, 'PX', '60000')
