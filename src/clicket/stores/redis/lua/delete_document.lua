-- Who asks has seen it: if it is not there when they ask again, they deleted it.
call('ZREM', base .. 'documents:' .. ask.kind, ask.key)
return (call('DEL', document_key(ask.kind, ask.key)) == 1 or ask.again) and 1 or 0
