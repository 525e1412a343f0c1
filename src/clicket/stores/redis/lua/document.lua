return call('HMGET', document_key(ask.kind, ask.key), 'body', 'version', 'updated')
