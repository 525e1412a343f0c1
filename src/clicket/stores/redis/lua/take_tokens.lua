-- Tokens of a rate that all owners share. Answers how many are granted, how many are left, and the seconds until the next one comes.
-- The arithmetic is that of stores/bucket.py; the key expires when the bucket is full again.
local bucket, at, rate = base .. 'bucket:' .. ask.name, tonumber(now()), tonumber(ask.rate)
local full_at = math.min(math.max(tonumber(call('GET', bucket) or '0'), at), at + ask.burst / rate)
local there = ask.burst - (full_at - at) * rate
local granted = math.max(math.min(ask.count, math.floor(there + 1e-6)), 0)
if ask.count > 0 then
  full_at = full_at + granted / rate
  call('SET', bucket, string.format('%.6f', full_at), 'PX', math.ceil((full_at - at) * 1000) + 1000)
end
local left = there - granted
local wait = left + 1e-6 >= 1 and 0 or (1 - left) / rate
return {granted, math.floor(left + 1e-6), string.format('%.6f', wait)}
