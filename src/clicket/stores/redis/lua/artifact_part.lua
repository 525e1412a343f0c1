-- A piece of an artifact that is being written; said twice, it is the same. What is never finished goes by itself.
local part = base .. 'part:' .. ask.part
call('SETRANGE', part, ask.offset, ARGV[2])
call('PEXPIRE', part, 3600000)
return 1
