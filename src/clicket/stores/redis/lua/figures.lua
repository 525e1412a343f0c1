-- Figures of one caller, or of some: {caller, {name, figure, …}} for each. `after`: the caller to go on from.
local callers = {ask.caller}
if not ask.caller then
  callers = call('ZRANGEBYLEX', base .. 'counted', ask.after and '(' .. ask.after or '-', '+', 'LIMIT', 0, ask.limit)
end
local found = {}
for n, caller in ipairs(callers) do
  found[n] = {caller, call('HGETALL', base .. 'figures:' .. caller)}
end
return found
