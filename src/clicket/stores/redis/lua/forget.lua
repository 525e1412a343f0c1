-- Calls that a reader met in a list and that are no more: their keys expired before a sweep came by.
for _, key in ipairs(ask.keys) do
  if call('EXISTS', base .. 'call:' .. key) == 0 then
    forget(key)
    call('ZREM', ask.walk, key)
  end
end
return 1
