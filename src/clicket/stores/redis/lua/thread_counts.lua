-- States of the calls of a thread of one caller, the newest first, below a key. Answers `{{state, count, newest, last time}, …}, the next key}`.
local keys = call('ZREVRANGEBYSCORE', base .. 'thread:' .. ask.thread, '(' .. string.format('%.0f', ask.before), 0, 'LIMIT', 0, ask.limit)
local counts, order = {}, {}
for _, key in ipairs(keys) do
  local row = try('HMGET', base .. 'call:' .. key, 'caller', 'state', 'created', 'ended')
  if not row.err and row[2] and row[1] == ask.caller then
    local of = counts[row[2]]
    if not of then
      of = {row[2], 0, tonumber(key), 0}
      counts[row[2]] = of
      order[#order + 1] = of
    end
    of[2] = of[2] + 1
    of[4] = math.max(of[4], tonumber(row[3]) or 0, tonumber(row[4]) or 0)
  end
end
for _, of in ipairs(order) do
  of[4] = string.format('%.6f', of[4])
end
return {order, #keys == ask.limit and tonumber(keys[#keys]) or 0}
