-- What an ending call adds: to the figures of its caller, a packed hash field for each kind of outcome, and to the health of its
-- tool. `health_law` is made of HEALTH_LAW in ports/health.py: for each effect the columns that change, and the rule for each.
local function kind_of(stats)
  return cmsgpack.pack({stats.tool, stats.outcome, stats.error, stats.bucket or false})
end

local function figure_of(caller, kind)
  local packed = call('HGET', base .. 'figures:' .. caller, kind)
  return packed and cmsgpack.unpack(packed)
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

-- Rows that outcomes of this script change, by place and tool, or by caller and name: each is read once, and written by `settle_stats`.
local new_health, new_figures, uncounted = {}, {}, {}

local function add_to_health(place, stats)
  local tools = of(new_health, place)
  local health = tools[stats.tool] or health_of(place, stats.tool) or {
    tool = stats.tool, completions = 0, failures = 0, consecutive_failures = 0, version = 0,
  }
  change_health(health, stats)
  tools[stats.tool] = health
end

local function add_stats(caller, thread, stats)
  local figures, kind = of(new_figures, caller), kind_of(stats)
  local figure = figures[kind] or figure_of(caller, kind)
  if not figure then
    figure, uncounted[caller] = {0, 0, stats.seconds, stats.seconds}, true
  end
  figures[kind] = figure
  figure[1], figure[2] = figure[1] + 1, figure[2] + stats.seconds
  figure[3], figure[4] = math.min(figure[3], stats.seconds), math.max(figure[4], stats.seconds)
  if stats.effect == 'none' or stats.tool == '' then
    return
  end
  add_to_health(place_of(caller, thread), stats)
  if stats.shared then
    add_to_health(place_of('', ''), stats)
  end
end

local function settle_stats()
  for caller, figures in pairs(new_figures) do
    local fields = {}
    for kind, figure in pairs(figures) do
      fields[#fields + 1] = kind
      fields[#fields + 1] = cmsgpack.pack(figure)
    end
    if uncounted[caller] and call('EXISTS', base .. 'figures:' .. caller) == 0 then
      call('ZADD', base .. 'counted', 0, caller)
    end
    call('HSET', base .. 'figures:' .. caller, unpack(fields))
  end
  local times = {}
  for place, tools in pairs(new_health) do
    for _, health in pairs(tools) do
      keep_health(place, health, times)
    end
  end
  if #times > 0 then
    call('ZADD', base .. 'standing_times', unpack(times))
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
  local name = kind_of(stats)
  local figure = figure_of(caller, name)
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
