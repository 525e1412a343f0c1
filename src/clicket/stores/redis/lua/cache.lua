-- Cached results. A card stays when an item expires by itself, so that its tags and its size can be cleaned up.
local function uncache(key)
  local card = call('HGET', base .. 'cards', key)
  call('DEL', base .. 'cache:' .. key)
  call('ZREM', base .. 'cached', key)
  call('ZREM', base .. 'expiring', key)
  if not card then
    return nil
  end
  call('HDEL', base .. 'cards', key)
  card = cmsgpack.unpack(card)
  for _, tag in ipairs(card.tags) do
    call('SREM', base .. 'tag:' .. tag, key)
  end
  call('HINCRBY', meta, 'cache_bytes', -card.size)
  return card.size
end
