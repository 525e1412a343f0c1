-- Remove some of the results with a tag, or of all. Answers how many there were, and whether there may be more.
local keys = ask.tag and call('SRANDMEMBER', base .. 'tag:' .. ask.tag, 200) or call('ZRANGE', base .. 'cached', 0, 199)
local count = 0
for _, key in ipairs(keys) do
  count = count + call('EXISTS', base .. 'cache:' .. key)
  if not uncache(key) and ask.tag then
    call('SREM', base .. 'tag:' .. ask.tag, key)
  end
end
return {count, #keys == 200 and 1 or 0}
