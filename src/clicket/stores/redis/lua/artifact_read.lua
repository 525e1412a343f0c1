local name = base .. 'artifact:' .. ask.name
if call('EXISTS', name) == 0 then
  return {0, '', 0}
end
if ask.stop < ask.start then
  return {1, '', call('STRLEN', name)}
end
return {1, call('GETRANGE', name, ask.start, ask.stop), call('STRLEN', name)}
