-- How tools stand: a hash for each thread of a caller, a packed standing for each tool, and a list of all by their last touch.
local function place_of(caller, thread)
  return #caller .. ':' .. caller .. #thread .. ':' .. thread -- lengths make it unambiguous, whatever the names hold
end

local function standing_of(place, tool)
  local packed = call('HGET', base .. 'standings:' .. place, tool)
  return packed and cmsgpack.unpack(packed)
end

local function keep_standing(place, standing)
  call('HSET', base .. 'standings:' .. place, standing.tool, cmsgpack.pack(standing))
  if standing.status then -- what a person set stays until a person says otherwise
    call('ZREM', base .. 'standing_times', place .. standing.tool)
  else
    call('ZADD', base .. 'standing_times', standing.updated_at, place .. standing.tool)
  end
end

local function forget_standing(place, tool)
  call('HDEL', base .. 'standings:' .. place, tool)
  call('ZREM', base .. 'standing_times', place .. tool)
end
