-- Does `turn` once for each call that lua/script.c has joined in this one.
-- KEYS, ARGV: those of the calls, one call's after the other's. It uses the locals `turn`, a
-- function of the places before a call's first key and before its first argument, and `keys_each`,
-- the number of a call's keys. Returns the answer of a single call, else a table of their answers.
-- An error is the answer of its own call alone: the calls before it are done by then.
local calls = #KEYS / keys_each
if calls == 1 then
  return turn(0, 0)
end
local answers, args_each = {}, #ARGV / calls
for i = 0, calls - 1 do
  local done, answer = pcall(turn, i * keys_each, i * args_each)
  if not done and type(answer) ~= 'table' then
    answer = {err = answer}
  end
  answers[i + 1] = answer
end
return answers
