-- Slots that all owners share.
local holds, held = base .. 'holds:' .. ask.name, base .. 'held:' .. ask.me
local before, total = tonumber(call('HGET', holds, ask.me)) or 0, 0
for _, count in ipairs(call('HVALS', holds)) do
  total = total + (tonumber(count) or 0)
end
if ask.count > before and total - before + ask.count > ask.capacity then
  return 0
end
if ask.count == 0 then
  call('HDEL', holds, ask.me)
  call('SREM', held, ask.name)
elseif ask.count ~= before then
  call('HSET', holds, ask.me, ask.count)
  call('SADD', held, ask.name)
end
if ask.count < before then
  hint('slot', 0)
end
return 1
