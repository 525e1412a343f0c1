-- Take calls that are nobody's: the highest priority first, then the oldest, over all the asker's tools.
local before = ask.again and answered()
if before then
  return before
end
local found = {}
for _, tool in ipairs(ask.tools) do
  local line = call('ZRANGE', base .. 'waiting:' .. tool, 0, ask.limit - 1, 'WITHSCORES')
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
local taken = {}
for n = 1, math.min(#found, ask.limit) do
  local key = tonumber(found[n][2])
  if key and take(key, '') then
    taken[#taken + 1] = {key, ''}
  else
    call('ZREM', base .. 'waiting:' .. found[n][3], found[n][2])
  end
end
return hand_out(taken)
