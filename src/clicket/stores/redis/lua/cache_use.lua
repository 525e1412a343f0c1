-- What an ending call had to do with the cache.
local function use_cache(use, body)
  if use.hit then
    call('HINCRBY', meta, 'hits', 1)
    local item = base .. 'cache:' .. use.key
    if call('EXISTS', item) == 1 then
      call('HSET', item, 'accessed', use.now)
      call('HINCRBY', item, 'count', 1)
      call('ZADD', base .. 'cached', 'XX', use.now, use.key)
    end
    return
  end
  call('HINCRBY', meta, 'misses', 1)
  if not use.tags then
    return
  end
  uncache(use.key)
  local item = base .. 'cache:' .. use.key
  call('HSET', item, 'body', body, 'tags', use.tags_text, 'created', use.created, 'expires', use.expires,
    'accessed', use.accessed, 'count', 0)
  call('PEXPIRE', item, use.ttl)
  call('ZADD', base .. 'cached', use.accessed, use.key)
  call('ZADD', base .. 'expiring', use.expires, use.key)
  call('HSET', base .. 'cards', use.key, cmsgpack.pack({size = #body, tags = use.tags}))
  call('HINCRBY', meta, 'cache_bytes', #body)
  for _, tag in ipairs(use.tags) do
    call('SADD', base .. 'tag:' .. tag, use.key)
  end
end
