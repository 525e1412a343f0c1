-- Kept calls of a thread of one caller are subject to sweeps again. Answers the key to go on after, or 0.
local keys = call('ZRANGEBYSCORE', base .. 'thread:' .. ask.thread, '(' .. string.format('%.0f', ask.after), '+inf', 'LIMIT', 0, ask.limit)
for _, key in ipairs(keys) do
  local row = try('HMGET', base .. 'call:' .. key, 'kept', 'caller', 'ended', 'bytes')
  if not row.err and row[1] == '1' and row[2] == ask.caller then
    local member = padded(key)
    call('HDEL', base .. 'call:' .. key, 'kept')
    call('ZADD', ENDED, row[3], member)
    call('ZADD', base .. 'thread_ended:' .. ask.thread, string.match(row[3], '^(%d+)%.%d+$') or row[3], member)
    weigh(ask.thread, tonumber(row[4]) or 0, 1)
    if ask.keep then
      call('PEXPIRE', base .. 'call:' .. key, ask.keep)
      call('PEXPIRE', base .. 'events:' .. key, ask.keep)
    end
  end
end
return #keys == ask.limit and tonumber(keys[#keys]) or 0
