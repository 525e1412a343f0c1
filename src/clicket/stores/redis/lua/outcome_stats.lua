-- What an ending call adds: to the figures of its caller, a packed hash field for each kind of ending, and to its tool's
-- standing. Backwards for one that is erased.
local function figure_of(caller, tally)
  local name = cmsgpack.pack({tally.tool, tally.outcome, tally.error, tally.bucket or false})
  local packed = call('HGET', base .. 'figures:' .. caller, name)
  return name, packed and cmsgpack.unpack(packed)
end

local function count_tally(caller, thread, tally)
  local name, figure = figure_of(caller, tally)
  if figure then
    figure = {
      figure[1] + 1, figure[2] + tally.seconds, math.min(figure[3], tally.seconds), math.max(figure[4], tally.seconds),
    }
  else
    figure = {1, tally.seconds, tally.seconds, tally.seconds}
    call('ZADD', base .. 'counted', 0, caller)
  end
  call('HSET', base .. 'figures:' .. caller, name, cmsgpack.pack(figure))
  if tally.effect == 'none' or tally.tool == '' then
    return
  end
  local place = place_of(caller, thread)
  local standing = standing_of(place, tally.tool) or {
    tool = tally.tool, completions = 0, failures = 0, consecutive_failures = 0, version = 0,
  }
  if tally.effect == 'failed' then
    standing.failures = standing.failures + 1
    standing.consecutive_failures = standing.consecutive_failures + 1
    standing.last_failure_at, standing.last_error = tally.at, tally.cause
    hear('health', 0)
  else
    standing.completions = standing.completions + 1
    standing.first_success_at, standing.last_success_at = standing.first_success_at or tally.at, tally.at
    if tally.effect == 'completed' then
      standing.consecutive_failures = 0
    end
  end
  standing.updated_at, standing.version = tally.at, standing.version + 1
  keep_standing(place, standing)
end

local function uncount_tally(caller, thread, tally)
  local name, figure = figure_of(caller, tally)
  if figure and figure[1] > 1 then
    figure[1], figure[2] = figure[1] - 1, figure[2] - tally.seconds
    call('HSET', base .. 'figures:' .. caller, name, cmsgpack.pack(figure))
  elseif figure then
    call('HDEL', base .. 'figures:' .. caller, name)
  end
  local place = place_of(caller, thread)
  local standing = tally.effect ~= 'none' and standing_of(place, tally.tool)
  if not standing then
    return
  end
  if standing.version == 1 then
    forget_standing(place, tally.tool) -- nothing else had ever touched it
    return
  end
  if tally.effect == 'failed' then
    standing.failures = math.max(standing.failures - 1, 0)
    standing.consecutive_failures = math.max(standing.consecutive_failures - 1, 0)
  else
    standing.completions = math.max(standing.completions - 1, 0)
  end
  standing.version = standing.version + 1
  keep_standing(place, standing)
end
