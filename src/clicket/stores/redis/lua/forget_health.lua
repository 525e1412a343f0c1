-- Remove some of the health rows that nothing changed since a time. Returns how many there were.
local old = call('ZRANGEBYSCORE', base .. 'tool_health_times', '-inf', '(' .. ask.since, 'LIMIT', 0, ask.limit)
for _, member in ipairs(old) do
  local at = 1
  for _ = 1, 2 do -- the caller, the thread; the tool is the rest
    local size, start = string.match(member, '^(%d+):()', at)
    at = size and start + tonumber(size) or #member + 1
  end
  forget_health(string.sub(member, 1, at - 1), string.sub(member, at))
end
return #old
