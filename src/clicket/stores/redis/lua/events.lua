-- Units from the one that holds number `after` + 1 on; none if the key is another call's now.
if call('HGET', base .. 'call:' .. ask.key, 'id') ~= ask.id then
  return {}
end
local stream = base .. 'events:' .. ask.key
local start = call('XREVRANGE', stream, ask.after + 1 .. '-0', '-', 'COUNT', 1)
local bodies = {}
for n, entry in ipairs(call('XRANGE', stream, start[1] and start[1][1] or '-', '+')) do
  bodies[n] = entry[2][2] or ''
end
return bodies
