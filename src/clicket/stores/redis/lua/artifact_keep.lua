-- The pieces are all there: give them their name.
local part, name = base .. 'part:' .. ask.part, base .. 'artifact:' .. ask.name
if call('EXISTS', name) == 0 then
  if ask.size == 0 then
    call('SET', name, '')
  elseif call('STRLEN', part) ~= ask.size then
    return 0
  else
    call('RENAME', part, name)
    call('PERSIST', name)
  end
  call('HINCRBY', meta, 'artifact_bytes', ask.size)
else
  call('DEL', part)
end
spare(ask.name)
return 1
