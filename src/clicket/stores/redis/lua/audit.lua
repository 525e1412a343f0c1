-- Lines of the log, under numbers of its own: a stream takes no number that is not above its last one.
local done = base .. 'ticket:' .. ask.ticket
if ask.again and call('EXISTS', done) == 1 then
  return 1
end
for n = 2, #ARGV do
  call('XADD', base .. 'audit', call('HINCRBY', meta, 'audited', 1) .. '-0', 'b', ARGV[n], 'at', now())
end
call('SET', done, '', 'PX', 600000)
return 1
