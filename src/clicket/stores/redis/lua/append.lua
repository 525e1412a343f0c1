-- Several units in their order, each applied whole or refused whole. Answers for each, with spaces between, the call's key, or why not;
-- after the key with commas also the process that gave the call away and whether others watch it, if there are such. A claiming unit
-- takes a call that is nobody's. Messages in `tell` are published at the end, each if all its units (counted from 0) were applied, with
-- the keys of its new calls in front.
-- Arguments are, for each unit, its values and its events; then the results for the cache, then the messages.
-- Keys are texts here: a number is formatted anew, as a float, wherever it is part of a name or an argument.

-- The values of the unit at hand, in the order of `_values` in writer.py. No table: making one takes longer than all that is read from it.
local id, thread, caller, tool, state, expect, fence, last, created, size, known_key, priority, owned, claims, is_request, first, ended,
  waiting, queue, hour, artifacts, cache, unless, maker
local counts, outcome, failure, bucket, seconds, effect, at, cause, tool_version, shared -- what an outcome adds, if it `counts`
local body, item
local me = tostring(ask.me)

local function stands(key)
  -- Is this very unit there already, and only the answer was lost?
  if not ask.again or not first then
    return false
  end
  local found = call('XRANGE', base .. 'events:' .. key, first .. '-0', first .. '-0')
  return found[1] ~= nil and found[1][2][2] == body
end

local function set(row, field, value)
  local count = #row
  row[count + 1], row[count + 2] = field, value
end

local function name_artifacts(key, names)
  for _, name in ipairs(artifacts) do
    if call('SADD', base .. 'uses:' .. name, key) == 1 then
      names = names == '' and name or names .. ' ' .. name
    end
  end
  return names
end

local function list_ended(key)
  local member = padded(key)
  enlist(base .. 'state:' .. state, key, key)
  enlist(ENDED, ended, member)
  -- Whole seconds: short lists are searched from their beginning, and fractions would be parsed at each step.
  enlist(base .. 'thread_ended:' .. thread, string.match(ended, '^(%d+)%.%d+$') or ended, member)
end

local function keep_ended(key, in_state, when, bytes, names, kept)
  -- What it takes to forget it, should its keys expire before it is swept.
  set(gathered.tombs, key, cmsgpack.pack({
    id = id, thread = thread, caller = caller, tool = tool, state = in_state, owner = '', ended = when, bytes = bytes, artifacts = names,
  }))
  if ask.keep and not kept then
    call('PEXPIRE', base .. 'call:' .. key, ask.keep)
    call('PEXPIRE', base .. 'events:' .. key, ask.keep)
  end
end

local last_key

local function new_key()
  if not last_key then -- keys for all calls that this script may create; those that are not used are left out
    last_key = call('HINCRBY', meta, 'calls', whole(ask.new)) - ask.new
  end
  last_key = last_key + 1
  return whole(last_key)
end

local function maker_moved()
  local is = call('HMGET', base .. 'call:' .. maker[1], 'seq', 'fence', 'owner', 'signal')
  return is[1] ~= maker[2] or is[2] ~= maker[3] or (is[3] or '') == '' or is[4] == '1'
end

local function create()
  local is_late = maker and maker_moved()
  local taken = find(id, thread, caller)
  if taken then
    if call('EXISTS', base .. 'call:' .. taken) == 1 then
      return stands(taken) and whole(taken), is_late and 'stale' or 'duplicate'
    end
    forget(taken)
  end
  if is_late then
    return nil, 'stale'
  end
  if unless and call('EXISTS', document_key(unless[1], unless[2])) == 1 then
    return nil, 'duplicate'
  end
  local key, owner = new_key(), (owned and not ended) and me or ''
  local names = artifacts and name_artifacts(key, '') or ''
  local row = {
    'id', id, 'thread', thread, 'caller', caller, 'tool', tool, 'state', state, 'seq', last, 'fence', whole(fence), 'claims', '1',
    'owner', owner, 'created', created, 'bytes', whole(size),
  }
  if ended then
    set(row, 'ended', ended)
  else
    if owner == '' then
      set(row, 'giver', me)
    end
    if waiting then
      set(row, 'waiting', waiting)
    end
  end
  if names ~= '' then
    set(row, 'artifacts', names)
  end
  if priority ~= 0 then
    set(row, 'priority', whole(priority))
  end
  if queue then
    set(row, 'queue', queue)
  end
  call('HSET', base .. 'call:' .. key, unpack(row))
  if first then
    call('XADD', base .. 'events:' .. key, first .. '-0', 'b', body)
  end
  enlist(ALL, key, key)
  local name = identity(id, thread, caller)
  gathered.ids[name] = key
  enlist(IDS, '0', name .. key)
  enlist(base .. 'thread:' .. thread, key, key)
  enlist(base .. 'tool:' .. tool, key, key)
  if caller ~= '' then
    enlist(base .. 'caller:' .. caller, key, key)
  end
  if hour then
    call('HSETNX', base .. 'hours', hour, key) -- no call that is older by key was made in this hour or later
  end
  if ended then
    weigh(thread, size, 1)
    list_ended(key)
    keep_ended(key, state, ended, size, names)
    return key, nil, true
  end
  enlist(ACTIVE, key, key)
  hold_for(key, owner, queue_of(tool, queue), caller, priority)
  wait_for(key, '', waiting or '')
  return key
end

local function update()
  local key = known_key
  local row = base .. 'call:' .. key
  local is
  if claims then
    is = try('HMGET', row, 'id', 'thread', 'caller', 'created', 'seq', 'fence', 'state', 'owner', 'bytes', 'giver', 'ended',
      'artifacts', 'signal', 'waiting', 'watched', 'claims', 'queue')
  else
    is = try('HMGET', row, 'id', 'thread', 'caller', 'created', 'seq', 'fence', 'state', 'owner', 'bytes', 'giver', 'ended',
      'artifacts', 'signal', 'waiting', 'watched')
  end
  -- A key alone is no proof: a server that lost its last second gives the same numbers to other calls.
  if is.err or is[1] ~= id or is[2] ~= thread or is[3] ~= caller or is[4] ~= created then
    return nil, 'stale'
  end
  local its_fence, owner, was_ended = tonumber(is[6]), is[8], (is[11] or '') ~= ''
  local bytes = (tonumber(is[9]) or 0) + size
  local news = {'seq', last, 'bytes', whole(bytes)}
  if claims then
    if tonumber(is[5]) ~= expect or its_fence ~= fence - 1 or owner ~= '' or was_ended then
      return owner == me and its_fence == fence and stands(key) and key, 'stale'
    end
    let_go(key, '', queue_of(tool, is[17]), caller, false)
    hold_for(key, me, '', '', 0)
    owner = me
    set(news, 'fence', whole(fence))
    set(news, 'claims', whole((tonumber(is[16]) or 0) + 1))
    set(news, 'owner', me)
  elseif tonumber(is[5]) ~= expect or (fence ~= -1 and its_fence ~= fence) then
    return stands(key) and key, 'stale'
  end
  local names = is[12] or ''
  if artifacts then
    names = name_artifacts(key, names)
    set(news, 'artifacts', names)
  end
  if first then
    call('XADD', base .. 'events:' .. key, first .. '-0', 'b', body)
  end
  local outsider = fence == -1
  local decides = not outsider and not was_ended
  local ends, signal = decides and ended, is[13] or ''
  if decides and state ~= is[7] then
    set(news, 'state', state)
  end
  local moves = decides and queue and owner == '' -- it waits already, and does so in another queue from now on
  if ends or moves or (not was_ended and not owned and owner ~= '') then
    local its_queue = is[17]
    if not claims and not (ends and owner ~= '') then
      its_queue = call('HGET', row, 'queue')
    end
    let_go(key, owner, queue_of(tool, its_queue), caller, signal == '1')
    set(news, 'owner', '')
    if signal ~= '' then
      set(news, 'signal', '')
    end
    if ends then
      set(news, 'ended', ended)
    else
      hold_for(key, '', queue_of(tool, queue or its_queue), caller, priority)
    end
  elseif is_request and owner ~= '' then
    call('SADD', base .. 'signals:' .. owner, key)
    set(news, 'signal', '1')
  elseif signal == '1' and not outsider then -- who writes on top of it has read it
    call('SREM', base .. 'signals:' .. owner, key)
    set(news, 'signal', '')
  end
  if decides then
    local waited, waits = is[14] or '', not ends and waiting or ''
    if waited ~= waits then
      wait_for(key, waited, waits)
      set(news, 'waiting', waits)
    end
  end
  if queue then
    set(news, 'queue', queue)
  end
  call('HSET', row, unpack(news))
  if ends then
    strike(ACTIVE, key)
    weigh(thread, bytes, 1)
    list_ended(key)
    keep_ended(key, state, ended, bytes, names)
  elseif was_ended then
    local kept = call('HGET', row, 'kept') == '1' -- retention counts it no more, and it does not expire
    if not kept then
      weigh(thread, size, 0)
    end
    keep_ended(key, is[7], is[11], bytes, names, kept)
  end
  return key, nil, ends, is[10], is[15]
end

local function apply()
  -- Answers the call's key, if the unit is there now, and what its sender is answered.
  local key, why, ends, giver, watched
  if expect == 0 then
    key, why, ends = create()
  else
    key, why, ends, giver, watched = update()
  end
  if not key then
    return nil, why
  end
  if cache and ends then
    use_cache(cache, item)
  end
  if counts and ends then
    add_stats(caller, thread, counts, outcome, failure, bucket, seconds, effect, at, cause, tool_version, shared)
  end
  if giver or watched then
    return key, key .. ',' .. (tonumber(giver) and giver or '0') .. (watched and ',1' or ',0')
  end
  return key, key
end

local function publish(message, text, keys)
  for _, place in ipairs(message.units) do
    if not keys[place + 1] then
      return
    end
  end
  if #message.new > 0 then
    local new = {}
    for n, place in ipairs(message.new) do
      new[n] = keys[place + 1]
    end
    text = '+' .. table.concat(new, ',') .. '\n' .. text
  end
  try('PUBLISH', message.channel, text) -- a user that may not publish can still write
end

gather()
local keys, answers, items, failed = {}, {}, 2 * ask.count + 1, false
for n = 1, ask.count do
  id, thread, caller, tool, state, expect, fence, last, created, size, known_key, priority, owned, claims, is_request, first, ended,
    waiting, queue, hour, artifacts, cache, unless, maker,
    counts, outcome, failure, bucket, seconds, effect, at, cause, tool_version, shared = cmsgpack.unpack(ARGV[2 * n])
  body = ARGV[2 * n + 1]
  if cache then
    items = items + 1
    item = ARGV[items]
  end
  local done, key, answer = pcall(apply)
  if done then
    keys[n], answers[n] = key, answer
  else
    failed = true
    answers[n] = type(key) == 'table' and key or {err = 'ERR ' .. tostring(key)}
  end
end
local counted, why = pcall(settle_stats)
settle(true)
if not counted then
  error(why)
end
for n, message in ipairs(ask.tell or {}) do
  publish(message, ARGV[items + n], keys)
end
return failed and answers or table.concat(answers, ' ')
