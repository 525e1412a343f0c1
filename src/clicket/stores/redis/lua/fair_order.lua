-- Which waiting calls come next: of each caller one, beginning after the caller that was served last, then the second of each. Within a
-- caller the highest priority comes first, then the oldest, over all queues. Lines of callers are read, not queues: however many calls
-- of one caller wait, those of another are found.
local function earlier(a, b)
  -- By bytes, as sorted sets are; the operators of Lua follow the server's locale.
  for n = 1, math.min(#a, #b) do
    local x, y = string.byte(a, n), string.byte(b, n)
    if x ~= y then
      return x < y
    end
  end
  return #a < #b
end

local function next_callers(queue, last, limit)
  if call('EXISTS', base .. 'waiting:' .. queue) == 0 then
    call('SREM', base .. 'queues', queue)
    return {}
  end
  local callers = base .. 'callers:' .. queue
  local found = call('ZRANGEBYLEX', callers, '(' .. last, '+', 'LIMIT', 0, limit)
  for _, caller in ipairs(call('ZRANGEBYLEX', callers, '-', '[' .. last, 'LIMIT', 0, limit - #found)) do
    found[#found + 1] = caller
  end
  return found
end

local function next_in_fair_order(queues, last, limit)
  -- Answers {member, queue, caller} for each.
  local lines, number = {}, 0
  for _, queue in ipairs(queues) do
    for _, caller in ipairs(next_callers(queue, last, limit)) do
      if not lines[caller] then
        lines[caller], number = {}, number + 1
      end
      table.insert(lines[caller], queue)
    end
  end
  local part = number == 0 and limit or math.floor(limit / number) + 1 -- a fair part first, more if other callers have too few
  while true do
    local found, longest = {}, 0
    for caller, its_queues in pairs(lines) do
      local mine, wraps = {}, not earlier(last, caller)
      for _, queue in ipairs(its_queues) do
        local line = call('ZRANGE', base .. 'line:' .. queue .. '\0' .. caller, 0, part - 1, 'WITHSCORES')
        for n = 1, #line, 2 do
          mine[#mine + 1] = {member = line[n], queue = queue, caller = caller, rank = tonumber(line[n + 1]), wraps = wraps}
        end
      end
      if #its_queues > 1 then -- else it is in this order already
        table.sort(mine, function(a, b)
          if a.rank ~= b.rank then
            return a.rank < b.rank
          end
          return a.member < b.member
        end)
      end
      longest = math.max(longest, #mine)
      for turn = 1, math.min(#mine, limit) do
        mine[turn].turn = turn
        found[#found + 1] = mine[turn]
      end
    end
    if part >= limit or #found >= limit or longest < part then
      if number > 1 then
        table.sort(found, function(a, b)
          if a.turn ~= b.turn then
            return a.turn < b.turn
          end
          if a.wraps ~= b.wraps then
            return b.wraps
          end
          return earlier(a.caller, b.caller)
        end)
      end
      return found
    end
    part = limit
  end
end
