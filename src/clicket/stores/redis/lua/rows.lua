-- A call as it is handed out: {key, id, fence, claims, owner, bodies of units, taken from}; nil if it is not there.
local function with_units(key, row, from)
  -- `row`: id, fence, claims, owner.
  local entries = try('XRANGE', base .. 'events:' .. key, '-', '+')
  local bodies = entries.err
  if not bodies then
    bodies = {}
    for n, entry in ipairs(entries) do
      bodies[n] = entry[2][2] or ''
    end
  end
  return {tonumber(key), row[1] or '', row[2] or '', row[3] or '', row[4] or '', bodies, from or ''}
end

local function row_of(key, from)
  local row = try('HMGET', base .. 'call:' .. key, 'id', 'fence', 'claims', 'owner', 'seq')
  if row.err then
    return {tonumber(key), '', '', '', '', row.err}
  end
  if not row[1] and not row[5] then
    return nil
  end
  return with_units(key, row, from)
end
