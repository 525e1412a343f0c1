-- Write a whole standing if its version is the expected one. Said twice with one ticket, it is done once.
local place, standing = place_of(ask.caller, ask.thread), ask.standing
local known = standing_of(place, standing.tool)
if known and known.ticket == ask.ticket then
  return 1
end
if (known and known.version or 0) ~= ask.expect then
  return 0
end
standing.version, standing.ticket = ask.expect + 1, ask.ticket
keep_standing(place, standing)
hear('health', 0)
return 1
