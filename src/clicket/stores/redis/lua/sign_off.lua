-- The owner leaves: it holds no slots, and what it said before and is still under way counts no more.
for _, name in ipairs(call('SMEMBERS', base .. 'held:' .. ask.me)) do
  call('HDEL', base .. 'holds:' .. name, ask.me)
end
call('DEL', base .. 'held:' .. ask.me, base .. 'signals:' .. ask.me)
call('HDEL', meta, 'owner:' .. ask.me, 'renewed:' .. ask.me, 'generation:' .. ask.me)
call('SREM', base .. 'owners', ask.me)
call('SET', base .. 'left:' .. ask.me, ask.generation + 1, 'PX', 3600000)
return 1
