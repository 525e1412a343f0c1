-- Take one call, if it is nobody's, or its owner is the one that the asker found dead. Else answers who has it.
local before = ask.again and answered()
if before then
  return {1, before}
end
local row = try('HMGET', base .. 'call:' .. ask.key, 'owner', 'ended')
if row.err or not row[1] or (row[2] or '') ~= '' then
  return {1, hand_out({}, {})}
end
local owner = row[1]
if owner == '' then
  local row = take(ask.key, '')
  return {1, hand_out(row and {{ask.key, ''}} or {}, {row or nil})}
end
local record = call('HMGET', meta, 'owner:' .. owner, 'renewed:' .. owner)
if ask.dead == owner and (ask.seen == '' or (record[2] or '') == ask.seen) then
  local row = take(ask.key, owner)
  return {1, hand_out(row and {{ask.key, owner}} or {}, {row or nil})}
end
return {0, owner, record[1] or '', record[2] or '', now()}
