-- New units of several calls: {key, should it be watched, units}. No units: the call is gone; none at all: nothing is new.
local found = {}
for _, each in ipairs(ask.calls) do
  local key, id, last = each[1], each[2], each[3]
  local row = call('HMGET', base .. 'call:' .. key, 'id', 'owner', 'ended', 'giver', 'watched', 'seq')
  if row[1] ~= id then
    found[#found + 1] = {key, 0, {}}
  else
    local unmarked = is_unmarked(row[2], row[3], row[4], row[5])
    if tonumber(row[6]) > last then
      found[#found + 1] = {key, unmarked, units_from(key, last)}
    elseif unmarked == 1 then
      found[#found + 1] = {key, 1, false}
    end
  end
end
return found
