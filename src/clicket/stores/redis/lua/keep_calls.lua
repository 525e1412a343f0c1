-- These ended calls stay until they are released: no sweep looks at them, and they do not expire.
for _, key in ipairs(ask.keys) do
  local member, facts = padded(key), facts_of(key)
  if facts and call('ZSCORE', ENDED, member) then
    call('ZREM', ENDED, member)
    call('ZREM', base .. 'thread_ended:' .. facts.thread, member)
    weigh(facts.thread, -(tonumber(facts.bytes) or 0), -1)
    call('HSET', base .. 'call:' .. key, 'kept', '1')
    call('PERSIST', base .. 'call:' .. key)
    call('PERSIST', base .. 'events:' .. key)
  end
end
return 0
