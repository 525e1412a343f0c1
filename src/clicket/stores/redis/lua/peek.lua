-- A piece of a list of ended calls, the oldest first: {key, when it ended, bytes, thread} for each.
local found = {}
for n, member in ipairs(call('ZRANGE', base .. ask.list, ask.start, ask.start + ask.count - 1)) do
  local key = tonumber(member)
  local facts = facts_of(key) or {}
  found[n] = {key, facts.ended or '', tostring(facts.bytes or 0), facts.thread or ''}
end
return found
