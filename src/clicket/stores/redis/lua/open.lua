-- Make the store, or look whether it is one of ours, and register an owner. It may be said twice with one ticket.
if call('EXISTS', meta) == 0 then
  for _, name in ipairs({'all', 'owners', 'ended', 'cached', 'tombs', 'audit', 'counted'}) do
    if call('EXISTS', base .. name) == 1 then
      return {'foreign', base .. name}
    end
  end
  call('HSET', meta, 'program', 'clicket', 'version', ask.version, 'store', ask.store)
end
local mark = try('HMGET', meta, 'program', 'version', 'store')
if mark.err or mark[1] ~= 'clicket' or not mark[2] or not mark[3] then
  return {'foreign', meta}
end
if tonumber(mark[2]) ~= ask.version then
  return {'version', mark[2]}
end
local ticket = base .. 'ticket:' .. ask.ticket
local id, stamp = call('GET', ticket), now()
if not id then
  id = call('HINCRBY', meta, 'owners', 1)
  call('SET', ticket, id, 'PX', 600000)
  call('HSET', meta, 'owner:' .. id, ask.owner, 'renewed:' .. id, stamp, 'generation:' .. id, ask.generation)
  call('SADD', base .. 'owners', id)
end
return {'open', mark[3], tostring(id), stamp}
