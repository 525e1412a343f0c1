return call('HMGET', paper_key(ask.kind, ask.key), 'body', 'version', 'updated')
