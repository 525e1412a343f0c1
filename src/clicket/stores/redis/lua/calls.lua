-- Where a call is listed, and how it vanishes from everywhere. `facts` are what its lists are made of.
local FACTS = {'id', 'thread', 'caller', 'tool', 'state', 'owner', 'ended', 'bytes', 'artifacts', 'waiting', 'queue'}

-- While a script that handles many calls gathers, changes of lists and sums wait for `settle`: then each list is changed by one
-- command for all calls. Rows and events, which such a script reads, are always written at once; new ids are found in `gathered.ids`.
local gathered
local ALL, ACTIVE, IDS, ENDED = base .. 'all', base .. 'active', base .. 'ids', base .. 'ended'
local THREAD_BYTES, THREAD_CALLS = base .. 'thread_bytes', base .. 'thread_calls'

local function gather()
  gathered = {add = {}, cut = {}, lines = {}, queues = {}, ids = {}, tombs = {}, threads = {}, bytes = 0}
end

local function of(lists, name)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  return list
end

local function enlist(list, score, member)
  if not gathered then
    call('ZADD', list, score, member)
    return
  end
  local adds, cuts = gathered.add[list], gathered.cut[list]
  if adds then
    local count = #adds
    adds[count + 1], adds[count + 2] = score, member
  else
    gathered.add[list] = {score, member}
  end
  if cuts then
    cuts[member] = nil
  end
end

local function strike(list, member)
  if not gathered then
    call('ZREM', list, member)
    return
  end
  of(gathered.cut, list)[member] = true -- cut after all are added
end

local function padded(key)
  -- In the order of keys where scores are equal. Most keys are texts already.
  if type(key) == 'string' and #key <= 16 then
    return string.sub('0000000000000000', #key + 1) .. key
  end
  return string.format('%016d', key)
end

local function whole(number)
  -- An argument as text: the server would format it as a float, and take longer.
  return string.format('%d', number)
end

local function identity(id, thread, caller)
  -- Lengths make it unambiguous, whatever the names hold. The list of ids has a key after each.
  return id .. '\0' .. #thread .. ':' .. thread .. #caller .. ':' .. caller .. '\0'
end

local function facts_of(key)
  local row = try('HMGET', base .. 'call:' .. key, unpack(FACTS))
  if not row.err and row[1] then
    local facts = {}
    for n, name in ipairs(FACTS) do
      facts[name] = row[n] or ''
    end
    return facts
  end
  local kept = call('HGET', base .. 'tombs', key) -- its own keys have expired, or were spoiled
  return kept and cmsgpack.unpack(kept)
end

local function weigh_thread(thread, bytes, calls)
  call('ZINCRBY', THREAD_BYTES, whole(bytes), thread)
  if calls ~= 0 and tonumber(call('ZINCRBY', THREAD_CALLS, whole(calls), thread)) <= 0 then
    call('ZREM', THREAD_CALLS, thread)
    call('ZREM', THREAD_BYTES, thread)
  end
end

local function weigh_threads(list, what, threads, sums)
  -- What `weigh_thread` adds to one of the lists, for several threads in which calls have ended.
  local scores = {}
  for n, before in ipairs(call('ZMSCORE', list, unpack(threads))) do
    scores[2 * n - 1] = whole((tonumber(before) or 0) + sums[threads[n]][what])
    scores[2 * n] = threads[n]
  end
  call('ZADD', list, unpack(scores))
end

local function weigh(thread, bytes, calls)
  -- Retention counts ended calls and their bytes, in all and by thread.
  if not gathered then
    call('HINCRBY', meta, 'ended_bytes', whole(bytes))
    weigh_thread(thread, bytes, calls)
    return
  end
  local sums = of(gathered.threads, thread)
  sums.bytes, sums.calls = (sums.bytes or 0) + bytes, (sums.calls or 0) + calls
  gathered.bytes = gathered.bytes + bytes
end

local function queue_of(tool, queue)
  return queue and queue ~= '' and queue or tool
end

local function join(queue, caller, key, priority)
  -- A call waits in its queue, and there in the line of its caller. `callers` has the callers with a line, in the order of names.
  local rank, member = priority == 0 and '0' or -priority, padded(key) -- a text is not formatted again
  enlist(base .. 'waiting:' .. queue, rank, member)
  enlist(base .. 'line:' .. queue .. '\0' .. caller, rank, member)
  enlist(base .. 'callers:' .. queue, '0', caller)
  if gathered then
    gathered.queues[queue] = true
  else
    call('SADD', base .. 'queues', queue)
  end
end

local function close_line(queue, caller, keeps_queue)
  if call('EXISTS', base .. 'line:' .. queue .. '\0' .. caller) == 0 then
    call('ZREM', base .. 'callers:' .. queue, caller)
  end
  if not keeps_queue and call('EXISTS', base .. 'waiting:' .. queue) == 0 then
    call('SREM', base .. 'queues', queue)
  end
end

local function leave(queue, caller, member)
  local line = base .. 'line:' .. queue .. '\0' .. caller
  strike(line, member)
  strike(base .. 'waiting:' .. queue, member)
  if gathered then
    gathered.lines[line] = {queue, caller}
  else
    close_line(queue, caller)
  end
end

local function hold_for(key, owner, queue, caller, priority)
  -- A live call is either somebody's, or waits in its queue.
  if owner == '' then
    join(queue, caller, key, priority)
  else
    enlist(base .. 'live:' .. owner, key, key)
  end
end

local function let_go(key, owner, queue, caller, requested)
  if owner == '' then
    leave(queue, caller, padded(key))
  else
    strike(base .. 'live:' .. owner, key)
    if requested then
      call('SREM', base .. 'signals:' .. owner, key)
    end
  end
end

local function wait_for(key, before, after)
  -- Live calls that wait for something are listed by what it is.
  if before ~= after then
    if before ~= '' then
      call('ZREM', base .. 'awaiting:' .. before, key)
    end
    if after ~= '' then
      call('ZADD', base .. 'awaiting:' .. after, key, key)
    end
  end
end

local function change_list(command, list, arguments)
  if #arguments > 0 then
    local answer = try(command, list, unpack(arguments))
    return type(answer) == 'table' and answer.err and answer
  end
end

local function settle(keeps_queues)
  -- A list that somebody spoiled must not keep the others from being written; its error is raised at the end. `keeps_queues`: names
  -- of queues stay listed when nothing waits in them any more, until a worker claims from them.
  local now, trouble = gathered, nil
  gathered = nil

  local function each(changes, write)
    for name, change in pairs(changes) do
      local done, why = pcall(write, name, change)
      trouble = trouble or not done and why
    end
  end

  for list, scores in pairs(now.add) do
    trouble = change_list('ZADD', list, scores) or trouble
  end
  for list, cuts in pairs(now.cut) do
    local members = {}
    for member in pairs(cuts) do
      members[#members + 1] = member
    end
    trouble = change_list('ZREM', list, members) or trouble
  end
  each(now.queues, function(queue) call('SADD', base .. 'queues', queue) end)
  each(now.lines, function(_, line) close_line(line[1], line[2], keeps_queues) end)
  local grown = {}
  for thread, sums in pairs(now.threads) do
    if sums.calls > 0 then
      grown[#grown + 1] = thread
    end
  end
  if #grown > 1 then
    each({bytes = THREAD_BYTES, calls = THREAD_CALLS}, function(what, list) weigh_threads(list, what, grown, now.threads) end)
    for _, thread in ipairs(grown) do
      now.threads[thread] = nil
    end
  end
  each(now.threads, function(thread, sums) weigh_thread(thread, sums.bytes, sums.calls) end)
  if #now.tombs > 0 then
    each({tombs = now.tombs}, function(name, facts) call('HSET', base .. name, unpack(facts)) end)
  end
  if now.bytes ~= 0 then
    each({ended_bytes = now.bytes}, function(name, bytes) call('HINCRBY', meta, name, whole(bytes)) end)
  end
  if trouble then
    error(trouble)
  end
end

local function forget(key)
  -- Remove a call. Answers its bytes and how many artifacts went with it.
  local facts, artifacts = facts_of(key), 0
  call('DEL', base .. 'call:' .. key, base .. 'events:' .. key)
  call('ZREM', ALL, key)
  call('ZREM', ACTIVE, key)
  call('ZREM', ENDED, padded(key))
  call('HDEL', base .. 'tombs', key)
  if not facts then
    return 0, 0
  end
  call('ZREM', IDS, identity(facts.id, facts.thread, facts.caller) .. key)
  for _, name in ipairs({'thread', 'tool', 'state', 'caller'}) do
    call('ZREM', base .. name .. ':' .. facts[name], key)
  end
  local bytes = tonumber(facts.bytes) or 0
  if facts.ended ~= '' then
    call('ZREM', base .. 'thread_ended:' .. facts.thread, padded(key))
    weigh(facts.thread, -bytes, -1)
  else
    let_go(key, facts.owner, queue_of(facts.tool, facts.queue), facts.caller, true)
  end
  wait_for(key, facts.waiting or '', '')
  for name in string.gmatch(facts.artifacts, '%S+') do
    local uses = base .. 'uses:' .. name
    call('SREM', uses, key)
    local spared = call('ZSCORE', base .. 'recent', name) or call('ZSCORE', base .. 'pins', name)
    if call('EXISTS', uses) == 0 and not spared then
      call('HINCRBY', meta, 'artifact_bytes', -call('STRLEN', base .. 'artifact:' .. name))
      artifacts = artifacts + call('DEL', base .. 'artifact:' .. name)
    end
  end
  return bytes, artifacts
end

local function find(id, thread, caller)
  -- The key of this very call, if there is one.
  local whole = identity(id, thread, caller)
  if gathered and gathered.ids[whole] then
    return gathered.ids[whole]
  end
  for _, member in ipairs(call('ZRANGEBYLEX', IDS, '[' .. whole, '(' .. string.sub(whole, 1, -2) .. '\1')) do
    local key = string.match(member, '^%d+$', #whole + 1)
    if key then
      return tonumber(key)
    end
  end
end
