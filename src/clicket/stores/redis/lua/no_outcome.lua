-- For units of calls that do not end: what an outcome adds takes time to define, and is left out.
local use_cache, add_stats
local function settle_stats() end
