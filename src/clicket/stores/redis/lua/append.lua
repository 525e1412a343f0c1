-- Several units in their order, each applied whole or refused whole. Answers for each the call's key, or why not; with the key also the
-- process that gave the call away and whether others watch it, if there are such. A claiming unit takes a call that is nobody's.
-- Messages in `tell` are published at the end, each if all its units (counted from 0) were applied, with the keys of its new calls in
-- front.
-- Keys are texts here: a number is formatted anew, as a float, wherever it is part of a name or an argument.
local unit, body, item
local me = tostring(ask.me)

local function stands(key)
  -- Is this very unit there already, and only the answer was lost?
  if not ask.again or not unit.first then
    return false
  end
  local found = call('XRANGE', base .. 'events:' .. key, unit.first .. '-0', unit.first .. '-0')
  return found[1] ~= nil and found[1][2][2] == body
end

local function set(row, field, before, value)
  if value ~= before then
    row[#row + 1] = field
    row[#row + 1] = value
  end
end

local function name_artifacts(key, names)
  for _, name in ipairs(unit.artifacts or {}) do
    if call('SADD', base .. 'uses:' .. name, key) == 1 then
      names = names == '' and name or names .. ' ' .. name
    end
  end
  return names
end

local function keep_ended(key, facts, new)
  if new then
    enlist(base .. 'state:' .. facts.state, key, key)
    enlist(base .. 'ended', facts.ended, padded(key))
    enlist(base .. 'thread_ended:' .. facts.thread, facts.ended, padded(key))
  end
  -- What it takes to forget it, should its keys expire before it is swept.
  table.insert(gathered.tombs, key)
  table.insert(gathered.tombs, cmsgpack.pack(facts))
  if ask.keep then
    call('PEXPIRE', base .. 'call:' .. key, ask.keep)
    call('PEXPIRE', base .. 'events:' .. key, ask.keep)
  end
end

local last_key

local function new_key()
  if not last_key then -- keys for all calls that this script may create; those that are not used are left out
    local most = 0
    for _, each in ipairs(ask.units) do
      most = most + (each.expect == 0 and 1 or 0)
    end
    last_key = call('HINCRBY', meta, 'calls', most) - most
  end
  last_key = last_key + 1
  return string.format('%d', last_key)
end

local function create()
  local taken = find(unit.id, unit.thread, unit.caller)
  if taken then
    if call('EXISTS', base .. 'call:' .. taken) == 1 then
      return stands(taken) and taken or 'duplicate', false, false
    end
    forget(taken)
  end
  local key = new_key()
  local facts = {
    id = unit.id, thread = unit.thread, caller = unit.caller, tool = unit.tool, state = unit.state,
    owner = (unit.owned and not unit.ended) and me or '', ended = unit.ended or '', bytes = unit.bytes,
    artifacts = name_artifacts(key, ''),
  }
  local row = {
    'id', facts.id, 'thread', facts.thread, 'caller', facts.caller, 'tool', facts.tool, 'state', facts.state,
    'seq', unit.last, 'fence', unit.fence, 'claims', 1, 'owner', facts.owner, 'created', unit.created, 'bytes', facts.bytes,
  }
  set(row, 'ended', '', facts.ended)
  set(row, 'artifacts', '', facts.artifacts)
  set(row, 'priority', 0, unit.priority)
  if facts.owner == '' and not unit.ended then
    set(row, 'giver', '', me)
  end
  set(row, 'waiting', '', not unit.ended and unit.waiting or '')
  set(row, 'queue', '', unit.queue or '')
  call('HSET', base .. 'call:' .. key, unpack(row))
  if unit.first then
    call('XADD', base .. 'events:' .. key, unit.first .. '-0', 'b', body)
  end
  enlist(base .. 'all', key, key)
  local whole = identity(facts.id, facts.thread, facts.caller)
  gathered.ids[whole] = key
  enlist(base .. 'ids', '0', whole .. key)
  enlist(base .. 'thread:' .. facts.thread, key, key)
  enlist(base .. 'tool:' .. facts.tool, key, key)
  if facts.caller ~= '' then
    enlist(base .. 'caller:' .. facts.caller, key, key)
  end
  if unit.hour then
    call('HSETNX', base .. 'hours', unit.hour, key) -- no call that is older by key was made in this hour or later
  end
  if unit.ended then
    weigh(facts.thread, unit.bytes, 1)
    keep_ended(key, facts, true)
    return key, true, true
  end
  enlist(base .. 'active', key, key)
  hold_for(key, facts.owner, queue_of(facts.tool, unit.queue), facts.caller, unit.priority)
  wait_for(key, '', unit.waiting or '')
  return key, true, false
end

local function update()
  local key = unit.key
  local row = base .. 'call:' .. key
  local is = try('HMGET', row, 'id', 'thread', 'caller', 'created', 'seq', 'fence', 'state', 'owner', 'ended', 'bytes',
    'artifacts', 'tool', 'priority', 'request', 'waiting', 'giver', 'watched', 'claims', 'queue')
  -- A key alone is no proof: a server that lost its last second gives the same numbers to other calls.
  if is.err or is[1] ~= unit.id or is[2] ~= unit.thread or is[3] ~= unit.caller or is[4] ~= unit.created then
    return 'stale', false, false
  end
  local claims
  if unit.claim then
    if tonumber(is[5]) ~= unit.expect or tonumber(is[6]) ~= unit.fence - 1 or is[8] ~= '' or (is[9] or '') ~= '' then
      local mine = is[8] == me and tonumber(is[6]) == unit.fence
      return mine and stands(key) and key or 'stale', false, false
    end
    let_go(key, '', queue_of(is[12], is[19]), unit.caller, false)
    hold_for(key, me, '', '', 0)
    claims, is[8] = (tonumber(is[18]) or 0) + 1, me
  elseif tonumber(is[5]) ~= unit.expect or (unit.fence ~= -1 and tonumber(is[6]) ~= unit.fence) then
    return stands(key) and key or 'stale', false, false
  end
  local outsider, was_ended, requested = unit.fence == -1, (is[9] or '') ~= '', is[14] == '1'
  local facts = {
    id = unit.id, thread = unit.thread, caller = unit.caller, tool = is[12], state = is[7], owner = is[8], ended = is[9] or '',
    bytes = (tonumber(is[10]) or 0) + unit.bytes, artifacts = name_artifacts(key, is[11] or ''),
  }
  if unit.first then
    call('XADD', base .. 'events:' .. key, unit.first .. '-0', 'b', body)
  end
  if not outsider and not was_ended then
    facts.state, facts.ended = unit.state, unit.ended or ''
  end
  local ends, request = facts.ended ~= '' and not was_ended, is[14] or ''
  if ends or (not was_ended and not unit.owned and facts.owner ~= '') then
    let_go(key, facts.owner, queue_of(facts.tool, is[19]), facts.caller, requested)
    facts.owner, request = '', ''
    if not ends then
      hold_for(key, '', queue_of(facts.tool, unit.queue or is[19]), facts.caller, tonumber(is[13]) or 0)
    end
  elseif unit.request and facts.owner ~= '' then
    call('SADD', base .. 'requests:' .. facts.owner, key)
    request = '1'
  elseif requested and not outsider then -- who writes on top of it has read it
    call('SREM', base .. 'requests:' .. facts.owner, key)
    request = ''
  end
  local waited = is[15] or ''
  local waits = waited
  if not outsider and not was_ended then
    waits = not ends and unit.waiting or ''
    wait_for(key, waited, waits)
  end
  local news = {'seq', unit.last, 'bytes', facts.bytes}
  set(news, 'state', is[7], facts.state)
  set(news, 'owner', is[8], facts.owner)
  set(news, 'ended', is[9] or '', facts.ended)
  set(news, 'artifacts', is[11] or '', facts.artifacts)
  set(news, 'request', is[14] or '', request)
  set(news, 'waiting', waited, waits)
  set(news, 'queue', is[19] or '', unit.queue or is[19] or '')
  if claims then
    set(news, 'fence', nil, unit.fence)
    set(news, 'claims', nil, claims)
    if facts.owner == me then
      set(news, 'owner', nil, me)
    end
  end
  call('HSET', row, unpack(news))
  if ends then
    strike(base .. 'active', key)
    weigh(facts.thread, facts.bytes, 1)
    keep_ended(key, facts, true)
  elseif was_ended then
    weigh(facts.thread, unit.bytes, 0)
    keep_ended(key, facts, false)
  end
  return key, true, ends, is[16], is[17]
end

local function apply()
  local answer, applied, ended, giver, watched
  if unit.expect == 0 then
    answer, applied, ended = create()
  else
    answer, applied, ended, giver, watched = update()
  end
  if unit.cache and applied then
    use_cache(unit.cache, item)
  end
  if unit.stats and ended then
    add_stats(unit.caller, unit.thread, unit.stats)
  end
  answer = tonumber(answer) or answer
  if giver or watched then
    return {answer, tonumber(giver) or 0, watched and 1 or 0}
  end
  return answer
end

local function key_of(answer)
  local key = type(answer) == 'table' and answer[1] or answer
  return type(key) == 'number' and string.format('%d', key)
end

local function publish(message, text, answers)
  for _, place in ipairs(message.units) do
    if not key_of(answers[place + 1]) then
      return
    end
  end
  if #message.new > 0 then
    local keys = {}
    for n, place in ipairs(message.new) do
      keys[n] = key_of(answers[place + 1])
    end
    text = '+' .. table.concat(keys, ',') .. '\n' .. text
  end
  try('PUBLISH', message.channel, text) -- a user that may not publish can still write
end

gather()
local answers, items = {}, #ask.units + 1
for n, each in ipairs(ask.units) do
  unit, body = each, ARGV[n + 1]
  if unit.cache then
    items = items + 1
    item = ARGV[items]
  end
  local done, answer = pcall(apply)
  if not done and type(answer) ~= 'table' then
    answer = {err = 'ERR ' .. tostring(answer)}
  end
  answers[n] = answer
end
local counted, why = pcall(settle_stats)
settle(true)
if not counted then
  error(why)
end
for n, message in ipairs(ask.tell or {}) do
  publish(message, ARGV[items + n], answers)
end
return answers
