-- Write a paper if its version is the expected one, or whatever it is. Said twice with one ticket, it is done once.
local paper = paper_key(ask.kind, ask.key)
local is = call('HMGET', paper, 'version', 'ticket')
if is[2] == ask.ticket then
  return 1
end
local version = tonumber(is[1]) or 0
if ask.expect and ask.expect ~= version then
  return 0
end
call('HSET', paper, 'body', ARGV[2], 'version', version + 1, 'updated', now(), 'ticket', ask.ticket)
call('ZADD', base .. 'papers:' .. ask.kind, 0, ask.key)
return 1
