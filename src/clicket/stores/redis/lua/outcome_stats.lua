-- What an ending call adds: to the figures of its caller, a packed hash field for each kind of outcome, and to the health of its
-- tool. `health_law` is made of HEALTH_LAW in ports/health.py: for each effect the columns that change, and the rule for each.
local function figure_of(caller, stats)
  local name = cmsgpack.pack({stats.tool, stats.outcome, stats.error, stats.bucket or false})
  local packed = call('HGET', base .. 'figures:' .. caller, name)
  return name, packed and cmsgpack.unpack(packed)
end

local function change_health(health, stats)
  local same_version = (health.tool_version or '') == stats.tool_version
  for column, rule in pairs(health_law[stats.effect]) do
    if rule == 'add' then
      health[column] = health[column] + 1
    elseif rule == 'add_or_restart' then
      health[column] = (same_version and health[column] or 0) + 1
    elseif rule == 'tool_version' then
      health[column] = stats.tool_version
    elseif rule == 'zero' then
      health[column] = 0
    elseif rule == 'at' then
      health[column] = stats.at
    elseif rule == 'at_if_unset' then
      health[column] = health[column] or stats.at
    elseif rule == 'cause' then
      health[column] = stats.cause
    end
  end
end

local function add_to_health(place, stats)
  local health = health_of(place, stats.tool) or {
    tool = stats.tool, completions = 0, failures = 0, consecutive_failures = 0, version = 0,
  }
  change_health(health, stats)
  keep_health(place, health)
end

local function add_stats(caller, thread, stats)
  local name, figure = figure_of(caller, stats)
  if figure then
    figure = {
      figure[1] + 1, figure[2] + stats.seconds, math.min(figure[3], stats.seconds), math.max(figure[4], stats.seconds),
    }
  else
    figure = {1, stats.seconds, stats.seconds, stats.seconds}
    call('ZADD', base .. 'counted', 0, caller)
  end
  call('HSET', base .. 'figures:' .. caller, name, cmsgpack.pack(figure))
  if stats.effect == 'none' or stats.tool == '' then
    return
  end
  add_to_health(place_of(caller, thread), stats)
  if stats.shared then
    add_to_health(place_of('', ''), stats)
  end
end

local function remove_from_health(place, stats)
  local health = stats.effect ~= 'none' and health_of(place, stats.tool)
  if not health then
    return
  end
  if health.version == 1 then
    forget_health(place, stats.tool) -- no other outcome ever changed it
    return
  end
  for column, rule in pairs(health_law[stats.effect]) do
    if (rule == 'add' or rule == 'add_or_restart') and column ~= 'version' then
      health[column] = math.max(health[column] - 1, 0)
    end
  end
  health.version = health.version + 1
  keep_health(place, health)
end

-- The reverse, for a call that is erased. Times that the call set stay.
local function remove_stats(caller, thread, stats)
  local name, figure = figure_of(caller, stats)
  if figure and figure[1] > 1 then
    figure[1], figure[2] = figure[1] - 1, figure[2] - stats.seconds
    call('HSET', base .. 'figures:' .. caller, name, cmsgpack.pack(figure))
  elseif figure then
    call('HDEL', base .. 'figures:' .. caller, name)
  end
  remove_from_health(place_of(caller, thread), stats)
  if stats.shared then
    remove_from_health(place_of('', ''), stats)
  end
end
