-- For each place, the health of every tool there.
local found = {}
for n, place in ipairs(ask.places) do
  found[n] = call('HVALS', base .. 'tool_health:' .. place_of(place[1], place[2]))
end
return found
