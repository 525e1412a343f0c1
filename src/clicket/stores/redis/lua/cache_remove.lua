local count = 0
for _, key in ipairs(ask.keys) do
  count = count + call('EXISTS', base .. 'cache:' .. key)
  uncache(key)
end
return count
