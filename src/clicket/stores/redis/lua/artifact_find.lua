-- Is it there? Then it counts as put just now: the sweep of a call that names it must not take it from the next one.
if call('EXISTS', base .. 'artifact:' .. ask.name) == 0 then
  return 0
end
call('ZADD', base .. 'recent', now(), ask.name)
return 1
