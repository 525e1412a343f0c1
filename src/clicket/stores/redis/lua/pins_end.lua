-- Up to `limit` pins that are over, those that ended first before the others: what no call names, and nobody has put for one
-- just now, goes with its pin; the rest goes with its last call. Answers pins, artifacts, bytes. `dry` only counts.
local over = call('ZRANGEBYSCORE', base .. 'pins', '-inf', ask.now, 'LIMIT', ask.start, ask.limit)
local artifacts, bytes = 0, 0
for _, name in ipairs(over) do
  local artifact = base .. 'artifact:' .. name
  local loose = call('EXISTS', base .. 'uses:' .. name) == 0 and not call('ZSCORE', base .. 'recent', name)
  if loose and call('EXISTS', artifact) == 1 then
    local size = call('STRLEN', artifact)
    artifacts, bytes = artifacts + 1, bytes + size
    if not ask.dry then
      call('DEL', artifact)
      call('HINCRBY', meta, 'artifact_bytes', -size)
    end
  end
  if not ask.dry then
    call('ZREM', base .. 'pins', name)
  end
end
return {#over, artifacts, bytes}
