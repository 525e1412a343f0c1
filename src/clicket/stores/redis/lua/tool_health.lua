return call('HVALS', base .. 'standings:' .. place_of(ask.caller, ask.thread))
