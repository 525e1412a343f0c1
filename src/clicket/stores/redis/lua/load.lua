-- Every call of an id, the newest first.
local from = ask.id .. '\0'
if ask.thread then
  from = from .. #ask.thread .. ':' .. ask.thread
end
local keys = {}
for _, member in ipairs(call('ZRANGEBYLEX', base .. 'ids', '[' .. from, '[' .. from .. '\255')) do
  keys[#keys + 1] = tonumber(string.match(member, '%d+$'))
end
table.sort(keys, function(a, b) return a > b end)
local rows = {}
for _, key in ipairs(keys) do
  local of = try('HMGET', base .. 'call:' .. key, 'id', 'thread', 'caller')
  if of.err or of[1] == ask.id and (not ask.thread or of[2] == ask.thread) and (not ask.caller or of[3] == ask.caller) then
    rows[#rows + 1] = row_of(key)
  end
end
return rows
