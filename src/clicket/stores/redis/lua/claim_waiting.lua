-- Take calls that are nobody's, from callers in turn: first one of each caller, beginning after the caller that was served last, then
-- the second of each. Within a caller the highest priority comes first, then the oldest, over all the asker's tools.
local before = ask.again and answered()
if before then
  return before
end
local found = {}
for _, tool in ipairs(ask.tools) do
  local line = call('ZRANGE', base .. 'waiting:' .. tool, 0, math.max(ask.look, ask.limit) - 1, 'WITHSCORES')
  for n = 1, #line, 2 do
    found[#found + 1] = {tonumber(line[n + 1]), line[n], tool}
  end
end
table.sort(found, function(a, b)
  if a[1] ~= b[1] then
    return a[1] < b[1]
  end
  return a[2] < b[2]
end)
local turns = {}
for n = 1, math.min(#found, math.max(ask.look, ask.limit)) do
  local each = found[n]
  local caller = try('HGET', base .. 'call:' .. (tonumber(each[2]) or ''), 'caller')
  caller = type(caller) == 'string' and caller or ''
  turns[caller] = (turns[caller] or 0) + 1
  found[n] = {turns[caller], caller <= ask.last_caller and 1 or 0, caller, each[2], each[3]}
end
for n = #found, math.max(ask.look, ask.limit) + 1, -1 do
  found[n] = nil
end
table.sort(found, function(a, b)
  for n = 1, 2 do
    if a[n] ~= b[n] then
      return a[n] < b[n]
    end
  end
  return a[3] < b[3]
end)
local taken = {}
for n = 1, #found do
  if #taken == ask.limit then
    break
  end
  local key = tonumber(found[n][4])
  if key and take(key, '') then
    taken[#taken + 1] = {key, ''}
  else
    call('ZREM', base .. 'waiting:' .. found[n][5], found[n][4])
  end
end
return hand_out(taken)
