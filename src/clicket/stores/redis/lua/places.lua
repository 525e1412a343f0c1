-- Key, caller and thread of the newest calls below a key. Those that have expired have no thread.
local found = {}
for _, key in ipairs(call('ZREVRANGEBYSCORE', base .. 'all', '(' .. string.format('%.0f', ask.before), 0, 'LIMIT', 0, ask.limit)) do
  local row = try('HMGET', base .. 'call:' .. key, 'caller', 'thread')
  found[#found + 1] = {tonumber(key), not row.err and row[1] or '', not row.err and row[2] or ''}
end
return found
