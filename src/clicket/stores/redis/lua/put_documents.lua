-- Write documents if the version of each is the expected one, or whatever it is; all of them, or none. Said twice with one ticket, it is
-- done once.
local versions = {}
for n, it in ipairs(ask.documents) do
  local is = call('HMGET', document_key(it.kind, it.key), 'version', 'ticket')
  if is[2] == ask.ticket then
    return 1
  end
  versions[n] = tonumber(is[1]) or 0
end
for n, it in ipairs(ask.documents) do
  if it.expect and it.expect ~= versions[n] then
    return 0
  end
end
for n, it in ipairs(ask.documents) do
  call('HSET', document_key(it.kind, it.key), 'body', ARGV[n + 1], 'version', versions[n] + 1, 'updated', now(), 'ticket', ask.ticket)
  call('ZADD', base .. 'documents:' .. it.kind, 0, it.key)
end
return 1
