-- Opens every script that changes something for an owner.
local mark = call('HMGET', meta, 'store', 'generation:' .. ask.me)
if mark[1] ~= ask.store then
  return 'lost'
end
local generation = mark[2] or call('GET', base .. 'left:' .. ask.me) or 0
if tonumber(generation) > ask.generation or (not mark[2] and not ask.owner) then
  return 'old' -- sent over a connection that its sender closed since, or by an owner that was given up: to be sent again
end
if ask.owner then
  -- A write renews the lease of its owner.
  call('HSET', meta, 'renewed:' .. ask.me, now())
  if mark[2] ~= tostring(ask.generation) then
    call('HSET', meta, 'owner:' .. ask.me, ask.owner, 'generation:' .. ask.me, ask.generation)
    call('SADD', base .. 'owners', ask.me)
  end
end
