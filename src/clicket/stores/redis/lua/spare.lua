-- What keeps an artifact that no call names: a pin until a time, which a later one never shortens; or that it was put just now.
local function spare(name)
  if ask['until'] then
    call('ZADD', base .. 'pins', 'GT', ask['until'], name)
  else
    call('ZADD', base .. 'recent', now(), name)
  end
end
