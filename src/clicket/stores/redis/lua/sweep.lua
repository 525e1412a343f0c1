-- Remove ended calls that break a bound, the oldest end first; then artifacts that nobody came to name, or that outlived
-- their calls because they had been put again a moment ago.
local ended = base .. 'ended'
local function oldest(list)
  return call('ZRANGE', list, 0, 0)[1]
end

local function over_in_thread(scores, bound)
  while bound do
    local thread = call('ZRANGEBYSCORE', base .. scores, '(' .. bound, '+inf', 'LIMIT', 0, 1)[1]
    local victim = thread and oldest(base .. 'thread_ended:' .. thread)
    if victim or not thread then
      return victim
    end
    call('ZREM', base .. scores, thread)
  end
end

local function victim()
  local first = oldest(ended)
  if not first then
    return nil
  end
  if ask.since and tonumber(call('ZSCORE', ended, first)) < tonumber(ask.since) then
    return first
  end
  if call('EXISTS', base .. 'call:' .. tonumber(first)) == 0 then
    return first -- expired by itself
  end
  local busy = over_in_thread('thread_calls', ask.thread_calls) or over_in_thread('thread_bytes', ask.thread_bytes)
  if busy then
    return busy -- before others are counted, so that a busy thread does not push them out
  end
  if ask.calls and call('ZCARD', ended) > ask.calls then
    return first
  end
  if ask.bytes and tonumber(call('HGET', meta, 'ended_bytes') or 0) > ask.bytes then
    return first
  end
end

local calls, bytes, artifacts = 0, 0, 0
while calls < ask.limit do
  local next_one = victim()
  if not next_one then
    break
  end
  local size, named = forget(tonumber(next_one))
  calls, bytes, artifacts = calls + 1, bytes + size, artifacts + named
end
if calls < ask.limit then
  local old = string.format('%.6f', now() - ask.young)
  for _, name in ipairs(call('ZRANGEBYSCORE', base .. 'recent', '-inf', old, 'LIMIT', 0, 50)) do
    call('ZREM', base .. 'recent', name)
    if call('EXISTS', base .. 'uses:' .. name) == 0 and not call('ZSCORE', base .. 'pins', name) then
      local size = call('STRLEN', base .. 'artifact:' .. name)
      artifacts = artifacts + call('DEL', base .. 'artifact:' .. name)
      call('HINCRBY', meta, 'artifact_bytes', -size)
    end
  end
end
return {calls, bytes, artifacts}
