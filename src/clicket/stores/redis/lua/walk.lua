-- The shortest list that has all calls which fit.
local walk = base .. 'all'
local least = call('ZCARD', walk)
local function consider(name, given)
  if given then
    local count = call('ZCARD', base .. name)
    if count < least then
      walk, least = base .. name, count
    end
  end
end
consider('thread:' .. (ask.thread or ''), ask.thread)
consider('tool:' .. (ask.tool or ''), ask.tool)
consider('state:' .. (ask.state or ''), ask.state and not ask.active) -- those of live calls have no lists
consider('caller:' .. (ask.caller or ''), ask.caller ~= '' and ask.caller)
consider('active', ask.active)
consider('awaiting:' .. (ask.waiting or ''), ask.waiting)

local oldest = 0
if ask.since then
  -- No call that is older by key than the first one of each later hour was made since.
  oldest = ask.before
  local hours, since = call('HGETALL', base .. 'hours'), math.floor(tonumber(ask.since) / 3600)
  for n = 1, #hours, 2 do
    if tonumber(hours[n]) >= since then
      oldest = math.min(oldest, tonumber(hours[n + 1]))
    end
  end
end
