-- Tool health: a hash for each thread of a caller with a packed row for each tool, and a sorted set of all by their last change.
local function place_of(caller, thread)
  return #caller .. ':' .. caller .. #thread .. ':' .. thread -- lengths make it unambiguous, whatever the names hold
end

local function health_of(place, tool)
  local packed = call('HGET', base .. 'tool_health:' .. place, tool)
  return packed and cmsgpack.unpack(packed)
end

local function keep_health(place, health, times)
  -- `times`: scores and members for `tool_health_times` are added to it, for the caller to write. Scores are whole seconds, none before the
  -- change: a short list is searched from its beginning, and fractions would be parsed at each step.
  local time = string.format('%d', math.ceil(health.updated_at))
  call('HSET', base .. 'tool_health:' .. place, health.tool, cmsgpack.pack(health))
  if health.status then -- what a person set stays until a person changes it
    call('ZREM', base .. 'tool_health_times', place .. health.tool)
  elseif times then
    times[#times + 1] = time
    times[#times + 1] = place .. health.tool
  else
    call('ZADD', base .. 'tool_health_times', time, place .. health.tool)
  end
end

local function forget_health(place, tool)
  call('HDEL', base .. 'tool_health:' .. place, tool)
  call('ZREM', base .. 'tool_health_times', place .. tool)
end
