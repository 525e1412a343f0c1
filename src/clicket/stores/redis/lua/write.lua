-- Opens every script that changes something for an owner.
local mark = call('HMGET', meta, 'store', 'generation:' .. ask.me)
if mark[1] ~= ask.store then
  return 'lost'
end
local generation = mark[2] or call('GET', base .. 'left:' .. ask.me) or 0
if tonumber(generation) > ask.generation or (not mark[2] and not ask.owner) then
  return 'old' -- sent over a connection that its sender gave up since, or by one who was given up for dead: to be said again
end
if ask.owner then
  -- Who writes, lives.
  call('HSET', meta, 'renewed:' .. ask.me, now())
  if mark[2] ~= tostring(ask.generation) then
    call('HSET', meta, 'owner:' .. ask.me, ask.owner, 'generation:' .. ask.me, ask.generation)
    call('SADD', base .. 'owners', ask.me)
  end
end

local others
local function hear(kind, key, to)
  -- A hint, so no trouble here may stop a write. Nobody is told what only he himself would hear.
  if others == nil then
    local told = try('PUBSUB', 'NUMSUB', base .. 'hear')
    others = told.err ~= nil or told[2] > (ask.listening or 0)
  end
  if others then
    try('PUBLISH', base .. 'hear', kind .. ' ' .. key .. ' ' .. ask.me .. ' ' .. (to or ''))
  end
end
