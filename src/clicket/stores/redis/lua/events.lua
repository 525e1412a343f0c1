-- Units from the one that holds number `after` + 1 on; none if the key is another call's now.
local row = call('HMGET', base .. 'call:' .. ask.key, 'id', 'owner', 'ended', 'giver', 'watched')
if row[1] ~= ask.id then
  return {0, {}}
end
return {is_unmarked(row[2], row[3], row[4], row[5]), units_from(ask.key, ask.after)}
