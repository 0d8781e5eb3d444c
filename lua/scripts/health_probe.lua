-- KEYS: 1 a key that nobody writes. ARGV: none.
-- Returns 1. An error says what Redis refuses, and begins with NOPERM where the account may not run
-- a command.
-- Runs every command that the daemon's other scripts run. The key does not exist, or the command
-- refuses its words, so nothing changes and nothing goes to the append-only file. But before Redis
-- looks at the words it checks the account's rights, its memory, its disk and its role.
local key = KEYS[1]
local harmless = {'wrong number of arguments', 'not an integer', 'no such key'}
local rights = {"executing the script can't", 'ACL failure'} -- before and from Redis 7.2 on

local function has_one(text, parts)
  for _, part in ipairs(parts) do
    if string.find(text, part, 1, true) then return true end
  end
end

for _, command in ipairs({
  {'SET', key, '', 'XX'}, {'GET', key}, {'DEL', key}, {'UNLINK', key}, {'RENAME', key, key},
  {'EXISTS', key}, {'TYPE', key}, {'PTTL', key}, {'PEXPIRE', key, '1'}, {'PERSIST', key},
  {'HSET', key, '', '', ''}, {'HGET', key, ''}, {'HMGET', key, ''}, {'HEXISTS', key, ''},
  {'HINCRBY', key, '', ''}, {'TIME'},
}) do
  local answer = redis.pcall(unpack(command))
  local refusal = type(answer) == 'table' and answer.err
  if refusal and not has_one(refusal, harmless) then
    refusal = string.gsub(refusal, '^@user_script: %d+: %-?', '') -- Redis 6 says where it was
    if has_one(refusal, rights) then refusal = 'NOPERM ' .. command[1] .. ': ' .. refusal end
    return redis.error_reply(refusal)
  end
end
return 1
