-- Take calls whose owner is dead, oldest first. `dead`: {owner, its last renewal as the asker saw it, where to go on}.
-- At most `budget` calls are looked at. Answers the calls, for each owner where to go on (-1: no more), and
-- whether slots were freed.
local before = ask.again and answered()
if before then
  return {before, {}, 0}
end

local tools = {}
for _, tool in ipairs(ask.tools) do
  tools[tool] = true
end
local found, ends, agreed, budget, freed = {}, {}, {}, ask.budget, 0
for n, dead in ipairs(ask.dead) do
  local owner, seen, from = dead[1], dead[2], dead[3]
  ends[n] = -1
  agreed[n] = seen == '' or (call('HGET', meta, 'renewed:' .. owner) or seen) == seen
  if agreed[n] then
    for _, name in ipairs(call('SMEMBERS', base .. 'held:' .. owner)) do
      call('HDEL', base .. 'holds:' .. name, owner)
      freed = 1
    end
    call('DEL', base .. 'held:' .. owner)
    local matches = 0
    while #ask.tools > 0 and matches < ask.limit do
      if budget <= 0 then
        ends[n] = tonumber(from)
        break
      end
      local keys = call('ZRANGEBYSCORE', base .. 'live:' .. owner, '(' .. from, '+inf', 'LIMIT', 0, 100)
      if #keys == 0 then
        break
      end
      for _, key in ipairs(keys) do
        from, budget = key, budget - 1
        local row = try('HMGET', base .. 'call:' .. key, 'tool', 'queue')
        if row.err or not row[1] then
          call('ZREM', base .. 'live:' .. owner, key)
        elseif tools[queue_of(row[1], row[2])] then
          found[#found + 1] = {tonumber(key), tostring(owner)}
          matches = matches + 1
          if matches == ask.limit then
            break
          end
        end
      end
    end
  end
end

table.sort(found, function(a, b) return a[1] < b[1] end)
if #found >= ask.limit then
  for n, dead in ipairs(ask.dead) do
    ends[n] = agreed[n] and dead[3] or -1 -- those that are not taken now are found again
  end
end
local taken, rows = {}, {}
for n = 1, math.min(#found, ask.limit) do
  local row = take(found[n][1], found[n][2])
  if row then
    taken[#taken + 1], rows[#rows + 1] = found[n], row
  end
end
for n, dead in ipairs(ask.dead) do
  if agreed[n] and call('EXISTS', base .. 'live:' .. dead[1]) == 0 then
    call('SET', base .. 'left:' .. dead[1], call('HGET', meta, 'generation:' .. dead[1]) or 0, 'PX', 3600000)
    call('HDEL', meta, 'owner:' .. dead[1], 'renewed:' .. dead[1], 'generation:' .. dead[1])
    call('DEL', base .. 'signals:' .. dead[1])
    call('SREM', base .. 'owners', dead[1])
  end
end
return {hand_out(taken, rows), ends, freed}
