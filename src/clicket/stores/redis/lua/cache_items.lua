-- Results in the order in which they expire, after a place, each with its size. Several may expire at the same time.
local found, offset = {}, 0
local from = tonumber(ask.expires)
while #found < ask.limit do
  local rows = call('ZRANGEBYSCORE', base .. 'expiring', ask.expires, '+inf', 'WITHSCORES', 'LIMIT', offset, ask.limit)
  if #rows == 0 then
    break
  end
  offset = offset + ask.limit
  for n = 1, #rows, 2 do
    local key = rows[n]
    if #found < ask.limit and (tonumber(rows[n + 1]) > from or key > ask.key) then
      local item = base .. 'cache:' .. key
      local fields = call('HMGET', item, 'tags', 'created', 'expires', 'accessed', 'count')
      found[#found + 1] = {key, fields, call('HSTRLEN', item, 'body'), rows[n + 1]}
    end
  end
end
return found
