-- Is it there? Then it is pinned, or counts as put just now: the sweep of a call that names it must not take it from the next.
if call('EXISTS', base .. 'artifact:' .. ask.name) == 0 then
  return 0
end
spare(ask.name)
return 1
