-- Keys of an owner's calls, or of those among them into which others wrote.
if ask.requests then
  return call('SMEMBERS', base .. 'requests:' .. ask.me)
end
return call('ZRANGE', base .. 'live:' .. ask.me, 0, -1)
