-- Claims. A claim whose answer was lost is asked for again under its ticket, and gets the very calls that it took.
local me = tostring(ask.me)

local function take(key, owner)
  -- Answers the call as `row_of` does; false: it cannot be taken.
  local name = base .. 'call:' .. key
  local row = try('HMGET', name, 'fence', 'claims', 'tool', 'queue', 'caller', 'id', 'signal')
  if row.err or not row[1] and not row[3] then
    call('ZREM', base .. 'live:' .. owner, key) -- somebody spoiled it: it must not stand in the way of others
    return false
  end
  let_go(key, owner, queue_of(row[3] or '', row[4]), row[5] or '', true)
  local fence, claims = whole((tonumber(row[1]) or 0) + 1), whole((tonumber(row[2]) or 0) + 1)
  if (row[7] or '') == '' then
    call('HSET', name, 'fence', fence, 'claims', claims, 'owner', me)
  else
    call('HSET', name, 'fence', fence, 'claims', claims, 'owner', me, 'signal', '')
  end
  hold_for(key, me, '', '', 0)
  return with_units(key, {row[6], fence, claims, me}, owner)
end

local function answered()
  -- What this ticket got before; nil if it has not been used.
  local used = call('GET', base .. 'ticket:' .. ask.ticket)
  if not used then
    return nil
  end
  local rows = {}
  for _, taken in ipairs(cmsgpack.unpack(used)) do
    if call('HGET', base .. 'call:' .. taken[1], 'owner') == me then
      rows[#rows + 1] = row_of(taken[1], taken[2])
    end
  end
  return rows
end

local function hand_out(taken, rows)
  -- `taken`: keys, and the owners from which they were taken. An answer that is asked for again is settled even if it is empty: nothing
  -- may be taken for it later.
  if #taken > 0 or ask.again then
    call('SET', base .. 'ticket:' .. ask.ticket, cmsgpack.pack(taken), 'PX', '600000')
  end
  return rows
end
