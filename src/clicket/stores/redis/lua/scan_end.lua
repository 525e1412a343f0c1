-- Key and time of the last call that a walk along that list looks at, if it looks at no more than `budget`; nothing if it looks at fewer.
local found
if ask.ascending then
  found = call('ZRANGEBYSCORE', walk, '(' .. string.format('%.0f', math.max(ask.after, oldest - 1)), '(' .. string.format('%.0f', ask.before),
    'LIMIT', ask.budget - 1, 1)
else
  found = call('ZREVRANGEBYSCORE', walk, '(' .. string.format('%.0f', ask.before), string.format('%.0f', math.max(ask.after + 1, oldest)),
    'LIMIT', ask.budget - 1, 1)
end
if not found[1] then
  return {}
end
local row = try('HMGET', base .. 'call:' .. found[1], 'created')
return {tonumber(found[1]), not row.err and row[1] or '0'}
