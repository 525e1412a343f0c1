-- Documents of a kind in the order of their keys, which Redis compares by their bytes. Answers them, and whether more may follow.
local found, size = {}, 0
local keys = call('ZRANGEBYLEX', base .. 'documents:' .. ask.kind, '(' .. ask.after, '+', 'LIMIT', 0, ask.limit)
for n, key in ipairs(keys) do
  local row = call('HMGET', document_key(ask.kind, key), 'body', 'version', 'updated')
  found[n] = {key, row[1] or '', row[2] or '', row[3] or ''}
  size = size + #found[n][2]
  if size > 4194304 then
    return {found, 1}
  end
end
return {found, #keys == ask.limit and 1 or 0}
