-- Every owner: {id, itself as JSON, when it was renewed}, and the server's time.
local found = {}
for n, id in ipairs(call('SMEMBERS', base .. 'owners')) do
  local record = call('HMGET', meta, 'owner:' .. id, 'renewed:' .. id)
  found[n] = {id, record[1] or '', record[2] or ''}
end
return {now(), found}
