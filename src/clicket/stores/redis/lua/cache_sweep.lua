-- Expired results first, then the least recently used while there are too many bytes.
local count, bytes = 0, 0
for _, key in ipairs(call('ZRANGEBYSCORE', base .. 'expiring', '-inf', ask.now, 'LIMIT', 0, ask.limit)) do
  count, bytes = count + 1, bytes + (uncache(key) or 0)
end
while count < ask.limit and tonumber(call('HGET', meta, 'cache_bytes') or 0) > ask.max_bytes do
  local key = call('ZRANGE', base .. 'cached', 0, 0)[1]
  if not key then
    break
  end
  count, bytes = count + 1, bytes + (uncache(key) or 0)
  call('HINCRBY', meta, 'evictions', 1)
end
return {count, bytes}
