-- Take calls that have no owner, from callers in turn.
local before = ask.again and answered()
if before then
  return cmsgpack.pack(before)
end
local taken, rows, waiting = {}, {}, next_in_fair_order(ask.tools, ask.last_caller, ask.limit)
gather()
for _, each in ipairs(waiting) do
  if #taken == ask.limit then
    break
  end
  local key = string.match(each.member, '^0*(%d+)$') -- a text, as in append.lua
  local row = key and take(key, '')
  if row then
    taken[#taken + 1], rows[#rows + 1] = {key, ''}, row
  else
    leave(each.queue, each.caller, each.member)
  end
end
settle()
return cmsgpack.pack(hand_out(taken, rows)) -- one text: the reply of many small parts takes longer to read
