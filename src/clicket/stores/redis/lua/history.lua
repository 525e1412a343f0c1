-- Calls that match, the newest first or the oldest first, along the shortest list that has them all. A step looks at no more than `budget` of
-- them and hands out no more than `limit`. Answers: calls, keys of calls that are gone, that list, and where to go on.
local MOST = 10000 -- of keys that are gathered and sorted, as the list of ids is not in their order

local gathered
if ask.prefix then
  local from, to = '[' .. ask.prefix, '[' .. ask.prefix .. '\255'
  local count = call('ZLEXCOUNT', base .. 'ids', from, to)
  if count <= least and count <= MOST then
    walk, gathered = base .. 'ids', {}
    for _, member in ipairs(call('ZRANGEBYLEX', walk, from, to)) do
      local key = tonumber(string.match(member, '%d+$'))
      if key and key < ask.before and key > ask.after then
        gathered[#gathered + 1] = key
      end
    end
    table.sort(gathered, function(a, b)
      if ask.ascending then
        return a < b
      end
      return a > b
    end)
  end
end

local at, position = ask.ascending and math.max(ask.after, oldest - 1) or ask.before, 0
local function exact(number)
  return string.format('%.0f', number)
end
local function next_keys()
  if not gathered then
    if ask.ascending then
      return call('ZRANGEBYSCORE', walk, '(' .. exact(at), '(' .. exact(ask.before), 'LIMIT', 0, 50)
    end
    local least = ask.after >= oldest and '(' .. exact(ask.after) or exact(oldest)
    return call('ZREVRANGEBYSCORE', walk, '(' .. exact(at), least, 'LIMIT', 0, 50)
  end
  local keys = {}
  for n = position + 1, math.min(position + 50, #gathered) do
    keys[#keys + 1] = gathered[n]
  end
  position = position + #keys
  return keys
end

local function matches(row)
  return (not ask.thread or row[2] == ask.thread) and (not ask.tool or row[3] == ask.tool)
    and (not ask.state or row[4] == ask.state) and (not ask.caller or row[5] == ask.caller)
    and (not ask.active or (row[7] or '') == '') and (not ask.since or (tonumber(row[6]) or 0) >= tonumber(ask.since))
    and (not ask.made_before or (tonumber(row[6]) or 0) < tonumber(ask.made_before))
    and (not ask.contains or string.find(row[1] or '', ask.contains, 1, true))
    and (not ask.prefix or string.sub(row[1] or '', 1, #ask.prefix) == ask.prefix)
    and (not ask.waiting or row[9] == ask.waiting)
end

local rows, gone, size, looked = {}, {}, 0, 0
while true do
  local keys = next_keys()
  if #keys == 0 then
    return {rows, gone, walk, 0}
  end
  for _, key in ipairs(keys) do
    at, looked = tonumber(key), looked + 1
    local row = try('HMGET', base .. 'call:' .. key, 'id', 'thread', 'tool', 'state', 'caller', 'created', 'ended', 'bytes',
      'waiting')
    if row.err then
      rows[#rows + 1] = row_of(at)
    elseif not row[1] then
      gone[#gone + 1] = at
    elseif matches(row) then
      rows[#rows + 1] = row_of(at)
      size = size + (tonumber(row[8]) or 0)
    end
    if #rows == ask.limit or looked == ask.budget or size > 4194304 then
      return {rows, gone, walk, at}
    end
  end
end
