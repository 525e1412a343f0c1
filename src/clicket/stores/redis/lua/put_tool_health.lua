-- Write a tool's whole health if its version is the expected one. A request that comes twice with one ticket is done once.
local place, health = place_of(ask.caller, ask.thread), ask.health
local known = health_of(place, health.tool)
if known and known.ticket == ask.ticket then
  return 1
end
if (known and known.version or 0) ~= ask.expect then
  return 0
end
health.version, health.ticket = ask.expect + 1, ask.ticket
keep_health(place, health)
return 1
