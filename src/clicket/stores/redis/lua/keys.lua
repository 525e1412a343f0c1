-- Keys of an owner's calls, or of those among them into which others wrote.
if ask.signals then
  return call('SMEMBERS', base .. 'signals:' .. ask.me)
end
return call('ZRANGE', base .. 'live:' .. ask.me, 0, -1)
