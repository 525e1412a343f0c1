if call('HGET', meta, 'store') ~= ask.store then
  return 'lost'
end
