-- Opens every script. KEYS[1] is the beginning of every key, ARGV[1] says in msgpack what is asked.
-- Numbers that must stay exact come as text, or are integers below 2^53.
local base, ask = KEYS[1], cmsgpack.unpack(ARGV[1])
local call, try = redis.call, redis.pcall
local meta = base .. 'meta'

local function now()
  local time = call('TIME')
  return string.format('%d.%06d', time[1], time[2])
end
