-- Remove these ended calls. Answers how many there were, their bytes, and how many artifacts went with them.
local calls, bytes, artifacts = 0, 0, 0
for _, key in ipairs(ask.keys) do
  if call('ZSCORE', base .. 'ended', padded(key)) then
    local size, named = forget(key)
    calls, bytes, artifacts = calls + 1, bytes + size, artifacts + named
  end
end
return {calls, bytes, artifacts}
