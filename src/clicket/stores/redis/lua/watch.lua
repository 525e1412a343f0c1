-- Calls whose new events are announced to all from now on.
for _, key in ipairs(ask.keys) do
  local row = try('HMGET', base .. 'call:' .. key, 'id', 'ended')
  if not row.err and row[1] and (row[2] or '') == '' then
    call('HSET', base .. 'call:' .. key, 'watched', '1')
  end
end
return 1
