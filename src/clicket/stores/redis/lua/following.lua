-- Units of a call's events, and whether another process should be told of new ones that is not told yet.
local function units_from(key, after)
  local stream = base .. 'events:' .. key
  local start = call('XREVRANGE', stream, after + 1 .. '-0', '-', 'COUNT', 1)
  local bodies = {}
  for n, entry in ipairs(call('XRANGE', stream, start[1] and start[1][1] or '-', '+')) do
    bodies[n] = entry[2][2] or ''
  end
  return bodies
end

local function is_unmarked(owner, ended, giver, watched)
  local me = tostring(ask.me)
  return ((ended or '') == '' and not watched and owner ~= me and giver ~= me) and 1 or 0
end
