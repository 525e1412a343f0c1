-- Calls of this owner become nobody's. Without keys: some of all that it has; answers how many are left.
local keys = ask.keys or call('ZRANGE', base .. 'live:' .. ask.me, 0, 199)
for _, key in ipairs(keys) do
  local row = try('HMGET', base .. 'call:' .. key, 'owner', 'ended', 'tool', 'priority', 'queue', 'caller')
  if row.err or not row[1] then
    call('ZREM', base .. 'live:' .. ask.me, key)
  elseif row[1] == tostring(ask.me) and (row[2] or '') == '' then
    let_go(key, row[1], '', '', true)
    call('HSET', base .. 'call:' .. key, 'owner', '', 'signal', '')
    hold_for(key, '', queue_of(row[3], row[5]), row[6] or '', tonumber(row[4]) or 0)
  else
    call('ZREM', base .. 'live:' .. ask.me, key)
  end
end
return call('ZCARD', base .. 'live:' .. ask.me)
