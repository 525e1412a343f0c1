-- One unit: applied whole or refused whole. Answers the call's key, or why not; with the key also the process that gave the call away
-- and whether others watch it, if there are such. A claiming unit takes a call that is nobody's.
local body = ARGV[2]

local function stands(key)
  -- Is this very unit there already, and only the answer was lost?
  if not ask.again or not ask.first then
    return false
  end
  local found = call('XRANGE', base .. 'events:' .. key, ask.first .. '-0', ask.first .. '-0')
  return found[1] ~= nil and found[1][2][2] == body
end

local function set(row, field, before, value)
  if value ~= before then
    row[#row + 1] = field
    row[#row + 1] = value
  end
end

local function name_artifacts(key, names)
  for _, name in ipairs(ask.artifacts or {}) do
    if call('SADD', base .. 'uses:' .. name, key) == 1 then
      names = names == '' and name or names .. ' ' .. name
    end
  end
  return names
end

local function keep_ended(key, facts, new)
  if new then
    call('ZADD', base .. 'state:' .. facts.state, key, key)
    call('ZADD', base .. 'ended', facts.ended, padded(key))
    call('ZADD', base .. 'thread_ended:' .. facts.thread, facts.ended, padded(key))
  end
  -- What it takes to forget it, should its keys expire before it is swept.
  call('HSET', base .. 'tombs', key, cmsgpack.pack(facts))
  if ask.keep then
    call('PEXPIRE', base .. 'call:' .. key, ask.keep)
    call('PEXPIRE', base .. 'events:' .. key, ask.keep)
  end
end

local function create()
  local taken = find(ask.id, ask.thread, ask.caller)
  if taken then
    if call('EXISTS', base .. 'call:' .. taken) == 1 then
      return stands(taken) and taken or 'duplicate', false, false
    end
    forget(taken)
  end
  local key = call('HINCRBY', meta, 'calls', 1)
  local facts = {
    id = ask.id, thread = ask.thread, caller = ask.caller, tool = ask.tool, state = ask.state,
    owner = (ask.owned and not ask.ended) and tostring(ask.me) or '', ended = ask.ended or '', bytes = ask.bytes,
    artifacts = name_artifacts(key, ''),
  }
  local row = {
    'id', facts.id, 'thread', facts.thread, 'caller', facts.caller, 'tool', facts.tool, 'state', facts.state,
    'seq', ask.last, 'fence', ask.fence, 'claims', 1, 'owner', facts.owner, 'created', ask.created, 'bytes', facts.bytes,
  }
  set(row, 'ended', '', facts.ended)
  set(row, 'artifacts', '', facts.artifacts)
  set(row, 'priority', 0, ask.priority)
  if facts.owner == '' and not ask.ended then
    set(row, 'giver', '', tostring(ask.me))
  end
  set(row, 'waiting', '', not ask.ended and ask.waiting or '')
  set(row, 'queue', '', ask.queue or '')
  call('HSET', base .. 'call:' .. key, unpack(row))
  if ask.first then
    call('XADD', base .. 'events:' .. key, ask.first .. '-0', 'b', body)
  end
  call('ZADD', base .. 'all', key, key)
  call('ZADD', base .. 'ids', 0, identity(facts.id, facts.thread, facts.caller) .. key)
  call('ZADD', base .. 'thread:' .. facts.thread, key, key)
  call('ZADD', base .. 'tool:' .. facts.tool, key, key)
  if facts.caller ~= '' then
    call('ZADD', base .. 'caller:' .. facts.caller, key, key)
  end
  if ask.hour then
    call('HSETNX', base .. 'hours', ask.hour, key) -- no call that is older by key was made in this hour or later
  end
  if ask.ended then
    weigh(facts.thread, ask.bytes, 1)
    keep_ended(key, facts, true)
    return key, true, true
  end
  call('ZADD', base .. 'active', key, key)
  hold_for(key, facts.owner, queue_of(facts.tool, ask.queue), facts.caller, ask.priority)
  wait_for(key, '', ask.waiting or '')
  return key, true, false
end

local function update()
  local key = ask.key
  local row = base .. 'call:' .. key
  local is = try('HMGET', row, 'id', 'thread', 'caller', 'created', 'seq', 'fence', 'state', 'owner', 'ended', 'bytes',
    'artifacts', 'tool', 'priority', 'request', 'waiting', 'giver', 'watched', 'claims', 'queue')
  -- A key alone is no proof: a server that lost its last second gives the same numbers to other calls.
  if is.err or is[1] ~= ask.id or is[2] ~= ask.thread or is[3] ~= ask.caller or is[4] ~= ask.created then
    return 'stale', false, false
  end
  if ask.claim then
    if tonumber(is[5]) ~= ask.expect or tonumber(is[6]) ~= ask.fence - 1 or is[8] ~= '' or (is[9] or '') ~= '' then
      local mine = is[8] == tostring(ask.me) and tonumber(is[6]) == ask.fence
      return mine and stands(key) and key or 'stale', false, false
    end
    let_go(key, '', queue_of(is[12], is[19]), ask.caller, false)
    hold_for(key, tostring(ask.me), '', '', 0)
    call('HSET', row, 'fence', ask.fence, 'claims', (tonumber(is[18]) or 0) + 1, 'owner', ask.me)
    is[8] = tostring(ask.me)
  elseif tonumber(is[5]) ~= ask.expect or (ask.fence ~= -1 and tonumber(is[6]) ~= ask.fence) then
    return stands(key) and key or 'stale', false, false
  end
  local outsider, was_ended, requested = ask.fence == -1, (is[9] or '') ~= '', is[14] == '1'
  local facts = {
    id = ask.id, thread = ask.thread, caller = ask.caller, tool = is[12], state = is[7], owner = is[8], ended = is[9] or '',
    bytes = (tonumber(is[10]) or 0) + ask.bytes, artifacts = name_artifacts(key, is[11] or ''),
  }
  if ask.first then
    call('XADD', base .. 'events:' .. key, ask.first .. '-0', 'b', body)
  end
  if not outsider and not was_ended then
    facts.state, facts.ended = ask.state, ask.ended or ''
  end
  local ends, request = facts.ended ~= '' and not was_ended, is[14] or ''
  if ends or (not was_ended and not ask.owned and facts.owner ~= '') then
    let_go(key, facts.owner, queue_of(facts.tool, is[19]), facts.caller, requested)
    facts.owner, request = '', ''
    if not ends then
      hold_for(key, '', queue_of(facts.tool, ask.queue or is[19]), facts.caller, tonumber(is[13]) or 0)
    end
  elseif ask.request and facts.owner ~= '' then
    call('SADD', base .. 'requests:' .. facts.owner, key)
    request = '1'
  elseif requested and not outsider then -- who writes on top of it has read it
    call('SREM', base .. 'requests:' .. facts.owner, key)
    request = ''
  end
  local waited = is[15] or ''
  local waits = waited
  if not outsider and not was_ended then
    waits = not ends and ask.waiting or ''
    wait_for(key, waited, waits)
  end
  local news = {'seq', ask.last, 'bytes', facts.bytes}
  set(news, 'state', is[7], facts.state)
  set(news, 'owner', is[8], facts.owner)
  set(news, 'ended', is[9] or '', facts.ended)
  set(news, 'artifacts', is[11] or '', facts.artifacts)
  set(news, 'request', is[14] or '', request)
  set(news, 'waiting', waited, waits)
  set(news, 'queue', is[19] or '', ask.queue or is[19] or '')
  call('HSET', row, unpack(news))
  if ends then
    call('ZREM', base .. 'active', key)
    weigh(facts.thread, facts.bytes, 1)
    keep_ended(key, facts, true)
  elseif was_ended then
    weigh(facts.thread, ask.bytes, 0)
    keep_ended(key, facts, false)
  end
  return key, true, ends, is[16], is[17]
end

local answer, applied, ended, giver, watched
if ask.expect == 0 then
  answer, applied, ended = create()
else
  answer, applied, ended, giver, watched = update()
end
if ask.cache and applied then
  use_cache(ask.cache, ARGV[3])
end
if ask.stats and ended then
  add_stats(ask.caller, ask.thread, ask.stats)
end
if giver or watched then
  return {answer, tonumber(giver) or 0, watched and 1 or 0}
end
return answer
