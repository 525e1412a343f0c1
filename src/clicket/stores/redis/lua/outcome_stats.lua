-- What an ending call adds: to the figures of its caller, a packed hash field for each kind of outcome, and to the health of its
-- tool. `health_law` is made of HEALTH_LAW in ports/health.py: for each effect the columns that change, and the rule for each.
local function kind_of(tool, outcome, failure, bucket)
  return cmsgpack.pack({tool, outcome, failure, bucket or false})
end

local function figure_of(caller, kind)
  local packed = call('HGET', base .. 'figures:' .. caller, kind)
  return packed and cmsgpack.unpack(packed)
end

local function change_health(health, effect, at, cause, tool_version)
  local same_version = (health.tool_version or '') == tool_version
  for column, rule in pairs(health_law[effect]) do
    if rule == 'add' then
      health[column] = health[column] + 1
    elseif rule == 'add_or_restart' then
      health[column] = (same_version and health[column] or 0) + 1
    elseif rule == 'tool_version' then
      health[column] = tool_version
    elseif rule == 'zero' then
      health[column] = 0
    elseif rule == 'at' then
      health[column] = at
    elseif rule == 'at_if_unset' then
      health[column] = health[column] or at
    elseif rule == 'cause' then
      health[column] = cause
    end
  end
end

-- What outcomes of this script change: health by place and tool, read once, and what is added to figures, by caller and kind. `settle_stats`
-- writes it.
local new_health, new_figures = {}, {}

local function add_to_health(place, tool, effect, at, cause, tool_version)
  local tools = of(new_health, place)
  local health = tools[tool] or health_of(place, tool) or {
    tool = tool, completions = 0, failures = 0, consecutive_failures = 0, version = 0,
  }
  change_health(health, effect, at, cause, tool_version)
  tools[tool] = health
end

local function add_stats(caller, thread, tool, outcome, failure, bucket, seconds, effect, at, cause, tool_version, shared)
  local figures, kind = of(new_figures, caller), kind_of(tool, outcome, failure, bucket)
  local figure = figures[kind]
  if figure then
    figure[1], figure[2] = figure[1] + 1, figure[2] + seconds
    figure[3], figure[4] = math.min(figure[3], seconds), math.max(figure[4], seconds)
  else
    figures[kind] = {1, seconds, seconds, seconds}
  end
  if effect == 'none' or tool == '' then
    return
  end
  add_to_health(place_of(caller, thread), tool, effect, at, cause, tool_version)
  if shared then
    add_to_health(place_of('', ''), tool, effect, at, cause, tool_version)
  end
end

local function settle_figures(caller, figures)
  local name, kinds, fields, known = base .. 'figures:' .. caller, {}, {}, false
  for kind in pairs(figures) do
    kinds[#kinds + 1] = kind
  end
  for n, packed in ipairs(call('HMGET', name, unpack(kinds))) do
    local figure = figures[kinds[n]]
    if packed then
      local before = cmsgpack.unpack(packed)
      figure[1], figure[2] = before[1] + figure[1], before[2] + figure[2]
      figure[3], figure[4] = math.min(before[3], figure[3]), math.max(before[4], figure[4])
      known = true
    end
    fields[2 * n - 1], fields[2 * n] = kinds[n], cmsgpack.pack(figure)
  end
  if not known and call('EXISTS', name) == 0 then
    call('ZADD', base .. 'counted', '0', caller)
  end
  call('HSET', name, unpack(fields))
end

local function settle_stats()
  -- Figures that somebody spoiled must not keep the others from being written.
  local trouble
  for caller, figures in pairs(new_figures) do
    local done, why = pcall(settle_figures, caller, figures)
    trouble = trouble or not done and why
  end
  local times = {}
  for place, tools in pairs(new_health) do
    for _, health in pairs(tools) do
      keep_health(place, health, times)
    end
  end
  if #times > 0 then
    call('ZADD', base .. 'tool_health_times', unpack(times))
  end
  if trouble then
    error(trouble)
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
  local name = kind_of(stats.tool, stats.outcome, stats.error, stats.bucket)
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
