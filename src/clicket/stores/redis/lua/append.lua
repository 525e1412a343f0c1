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

local function set(row, field, value)
  local count = #row
  row[count + 1], row[count + 2] = field, value
end

local function name_artifacts(key, names)
  for _, name in ipairs(unit.artifacts or {}) do
    if call('SADD', base .. 'uses:' .. name, key) == 1 then
      names = names == '' and name or names .. ' ' .. name
    end
  end
  return names
end

local function list_ended(key, thread, state, ended)
  local member = padded(key)
  enlist(base .. 'state:' .. state, key, key)
  enlist(ENDED, ended, member)
  -- Whole seconds: short lists are searched from their beginning, and fractions would be parsed at each step.
  enlist(base .. 'thread_ended:' .. thread, string.match(ended, '^(%d+)%.%d+$') or ended, member)
end

local function keep_ended(key, tool, state, ended, bytes, artifacts)
  -- What it takes to forget it, should its keys expire before it is swept.
  local tombs = gathered.tombs
  local count = #tombs
  tombs[count + 1] = key
  tombs[count + 2] = cmsgpack.pack({
    id = unit.id, thread = unit.thread, caller = unit.caller, tool = tool, state = state, owner = '', ended = ended, bytes = bytes,
    artifacts = artifacts,
  })
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
  return whole(last_key)
end

local function create()
  local taken = find(unit.id, unit.thread, unit.caller)
  if taken then
    if call('EXISTS', base .. 'call:' .. taken) == 1 then
      return stands(taken) and taken or 'duplicate', false, false
    end
    forget(taken)
  end
  local key, thread, caller, ended, bytes = new_key(), unit.thread, unit.caller, unit.ended, unit.bytes
  local owner, artifacts = (unit.owned and not ended) and me or '', unit.artifacts and name_artifacts(key, '') or ''
  local row = {
    'id', unit.id, 'thread', thread, 'caller', caller, 'tool', unit.tool, 'state', unit.state, 'seq', unit.last,
    'fence', whole(unit.fence), 'claims', '1', 'owner', owner, 'created', unit.created, 'bytes', whole(bytes),
  }
  if ended then
    set(row, 'ended', ended)
  else
    if owner == '' then
      set(row, 'giver', me)
    end
    if unit.waiting then
      set(row, 'waiting', unit.waiting)
    end
  end
  if artifacts ~= '' then
    set(row, 'artifacts', artifacts)
  end
  if unit.priority ~= 0 then
    set(row, 'priority', whole(unit.priority))
  end
  if unit.queue then
    set(row, 'queue', unit.queue)
  end
  call('HSET', base .. 'call:' .. key, unpack(row))
  if unit.first then
    call('XADD', base .. 'events:' .. key, unit.first .. '-0', 'b', body)
  end
  enlist(ALL, key, key)
  local name = identity(unit.id, thread, caller)
  gathered.ids[name] = key
  enlist(IDS, '0', name .. key)
  enlist(base .. 'thread:' .. thread, key, key)
  enlist(base .. 'tool:' .. unit.tool, key, key)
  if caller ~= '' then
    enlist(base .. 'caller:' .. caller, key, key)
  end
  if unit.hour then
    call('HSETNX', base .. 'hours', unit.hour, key) -- no call that is older by key was made in this hour or later
  end
  if ended then
    weigh(thread, bytes, 1)
    list_ended(key, thread, unit.state, ended)
    keep_ended(key, unit.tool, unit.state, ended, bytes, artifacts)
    return key, true, true
  end
  enlist(ACTIVE, key, key)
  hold_for(key, owner, queue_of(unit.tool, unit.queue), caller, unit.priority)
  wait_for(key, '', unit.waiting or '')
  return key, true, false
end

local function update()
  local key, thread, caller, claim = unit.key, unit.thread, unit.caller, unit.claim
  local row = base .. 'call:' .. key
  local is
  if claim then
    is = try('HMGET', row, 'id', 'thread', 'caller', 'created', 'seq', 'fence', 'state', 'owner', 'bytes', 'giver', 'ended',
      'artifacts', 'request', 'waiting', 'watched', 'claims', 'queue')
  else
    is = try('HMGET', row, 'id', 'thread', 'caller', 'created', 'seq', 'fence', 'state', 'owner', 'bytes', 'giver', 'ended',
      'artifacts', 'request', 'waiting', 'watched')
  end
  -- A key alone is no proof: a server that lost its last second gives the same numbers to other calls.
  if is.err or is[1] ~= unit.id or is[2] ~= thread or is[3] ~= caller or is[4] ~= unit.created then
    return 'stale', false, false
  end
  local fence, state, owner, was_ended = tonumber(is[6]), is[7], is[8], (is[11] or '') ~= ''
  local bytes = (tonumber(is[9]) or 0) + unit.bytes
  local news = {'seq', unit.last, 'bytes', whole(bytes)}
  if claim then
    if tonumber(is[5]) ~= unit.expect or fence ~= unit.fence - 1 or owner ~= '' or was_ended then
      local mine = owner == me and fence == unit.fence
      return mine and stands(key) and key or 'stale', false, false
    end
    let_go(key, '', queue_of(unit.tool, is[17]), caller, false)
    hold_for(key, me, '', '', 0)
    owner = me
    set(news, 'fence', whole(unit.fence))
    set(news, 'claims', whole((tonumber(is[16]) or 0) + 1))
    set(news, 'owner', me)
  elseif tonumber(is[5]) ~= unit.expect or (unit.fence ~= -1 and fence ~= unit.fence) then
    return stands(key) and key or 'stale', false, false
  end
  local artifacts = is[12] or ''
  if unit.artifacts then
    artifacts = name_artifacts(key, artifacts)
    set(news, 'artifacts', artifacts)
  end
  if unit.first then
    call('XADD', base .. 'events:' .. key, unit.first .. '-0', 'b', body)
  end
  local outsider, ended = unit.fence == -1, nil
  if not outsider and not was_ended then
    ended = unit.ended
    if unit.state ~= state then
      state = unit.state
      set(news, 'state', state)
    end
  end
  local request = is[13] or ''
  if ended or (not was_ended and not unit.owned and owner ~= '') then
    local queue = claim and is[17]
    if not claim and not (ended and owner ~= '') then
      queue = call('HGET', row, 'queue')
    end
    let_go(key, owner, queue_of(unit.tool, queue), caller, request == '1')
    set(news, 'owner', '')
    if request ~= '' then
      set(news, 'request', '')
    end
    if ended then
      set(news, 'ended', ended)
    else
      hold_for(key, '', queue_of(unit.tool, unit.queue or queue), caller, unit.priority)
    end
  elseif unit.request and owner ~= '' then
    call('SADD', base .. 'requests:' .. owner, key)
    set(news, 'request', '1')
  elseif request == '1' and not outsider then -- who writes on top of it has read it
    call('SREM', base .. 'requests:' .. owner, key)
    set(news, 'request', '')
  end
  if not outsider and not was_ended then
    local waited, waits = is[14] or '', not ended and unit.waiting or ''
    if waited ~= waits then
      wait_for(key, waited, waits)
      set(news, 'waiting', waits)
    end
  end
  if unit.queue then
    set(news, 'queue', unit.queue)
  end
  call('HSET', row, unpack(news))
  if ended then
    strike(ACTIVE, key)
    weigh(thread, bytes, 1)
    list_ended(key, thread, state, ended)
    keep_ended(key, unit.tool, state, ended, bytes, artifacts)
  elseif was_ended then
    weigh(thread, unit.bytes, 0)
    keep_ended(key, unit.tool, state, is[11], bytes, artifacts)
  end
  return key, true, ended ~= nil, is[10], is[15]
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
  return type(key) == 'number' and whole(key)
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
