-- Make the store, or look whether it is one of ours, and register an owner. It may be said twice with one ticket.
if call('EXISTS', meta) == 0 then
  for _, name in ipairs({'all', 'owners', 'ended', 'cached', 'tombs', 'audit', 'counted'}) do
    if call('EXISTS', base .. name) == 1 then
      return {'foreign', base .. name}
    end
  end
  call('HSET', meta, 'program', 'clicket', 'schema', ask.schema, 'store', ask.store)
end
local mark = try('HMGET', meta, 'program', 'schema', 'store')
if mark.err or mark[1] ~= 'clicket' or not mark[2] or not mark[3] then
  return {'foreign', meta}
end
local schema = tonumber(mark[2])
if not schema or schema > ask.schema then
  return {'schema', mark[2]}
end
if schema < ask.schema then
  call('HSET', meta, 'schema', ask.schema) -- 2 has records, 3 has pins: no key that older ones know is another
  if schema < 4 then -- 4 has lines of callers in queues
    for _, key in ipairs(call('ZRANGE', base .. 'active', 0, -1)) do
      local row = try('HMGET', base .. 'call:' .. key, 'owner', 'ended', 'tool', 'caller', 'priority')
      if not row.err and row[1] == '' and (row[2] or '') == '' then
        join(row[3] or '', row[4] or '', tonumber(key), tonumber(row[5]) or 0)
      end
    end
  end
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
