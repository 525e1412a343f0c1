-- The queues with calls that have no owner: {queue, how many, when the oldest was made}. A queue is sorted by priority, then by age: the
-- oldest of all is the first of one of the priorities.
local found = {}
for _, queue in ipairs(call('SMEMBERS', base .. 'queues')) do
  local waiting = base .. 'waiting:' .. queue
  local oldest, from = nil, '-inf'
  for _ = 1, 100 do
    local first = call('ZRANGEBYSCORE', waiting, from, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not first[1] then
      break
    end
    if not oldest or first[1] < oldest then
      oldest = first[1]
    end
    from = '(' .. first[2]
  end
  if oldest then
    local made = try('HGET', base .. 'call:' .. (tonumber(oldest) or ''), 'created')
    found[#found + 1] = {queue, call('ZCARD', waiting), type(made) == 'string' and made or ''}
  end
end
return found
