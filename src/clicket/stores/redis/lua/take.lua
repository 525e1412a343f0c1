-- Claims. A claim whose answer was lost is asked for again under its ticket, and gets the very calls that it took.
local function take(key, owner)
  local row = try('HMGET', base .. 'call:' .. key, 'fence', 'claims', 'tool', 'queue', 'caller')
  if row.err or not row[1] and not row[3] then
    call('ZREM', base .. 'live:' .. owner, key) -- somebody spoiled it: it must not stand in the way of others
    return false
  end
  let_go(key, owner, queue_of(row[3] or '', row[4]), row[5] or '', true)
  call('HSET', base .. 'call:' .. key, 'fence', (tonumber(row[1]) or 0) + 1, 'claims', (tonumber(row[2]) or 0) + 1,
    'owner', ask.me, 'request', '')
  hold_for(key, tostring(ask.me), '', '', 0)
  return true
end

local function answered()
  -- What this ticket got before; nil if it has not been used.
  local used = call('GET', base .. 'ticket:' .. ask.ticket)
  if not used then
    return nil
  end
  local rows = {}
  for _, taken in ipairs(cmsgpack.unpack(used)) do
    if call('HGET', base .. 'call:' .. taken[1], 'owner') == tostring(ask.me) then
      rows[#rows + 1] = row_of(taken[1], taken[2])
    end
  end
  return rows
end

local function hand_out(taken)
  -- An answer that is asked for again is settled even if it is empty: nothing may be taken for it later.
  if #taken > 0 or ask.again then
    call('SET', base .. 'ticket:' .. ask.ticket, cmsgpack.pack(taken), 'PX', 600000)
  end
  local rows = {}
  for _, each in ipairs(taken) do
    rows[#rows + 1] = row_of(each[1], each[2])
  end
  return rows
end
