return call('HMGET', base .. 'cache:' .. ask.key, 'body', 'tags', 'created', 'expires', 'accessed', 'count')
