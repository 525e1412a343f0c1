-- Lines of the log, the newest first: {number, body, time} for each. They are as many as asked for, or 4 MiB, or all.
local found, size = {}, 0
for n, entry in ipairs(call('XREVRANGE', base .. 'audit', ask.last and ask.last .. '-0' or '+', '-', 'COUNT', ask.limit)) do
  found[n] = {tonumber(string.match(entry[1], '^%d+')), entry[2][2] or '', entry[2][4] or ''}
  size = size + #found[n][2]
  if size > 4194304 then
    break
  end
end
return found
