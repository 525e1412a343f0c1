-- Remove a call that consists of exactly this unit, and what it added.
local key = find(ask.id, ask.thread, ask.caller)
if not key then
  return 0
end
local row = call('HMGET', base .. 'call:' .. key, 'seq', 'created')
local found = call('XRANGE', base .. 'events:' .. key, '-', '+', 'COUNT', 2)
if tonumber(row[1]) == ask.last and row[2] == ask.created and #found == 1 and found[1][2][2] == ARGV[2] then
  forget(key)
  if ask.stats then
    remove_stats(ask.caller, ask.thread, ask.stats)
  end
  return 1
end
return 0
