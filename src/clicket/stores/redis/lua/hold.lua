-- Slots that all owners share. Answers 0: not granted; 1: granted; 2: granted, and slots are free that were not.
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
return ask.count < before and 2 or 1
