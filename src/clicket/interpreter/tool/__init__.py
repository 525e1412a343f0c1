"""The interpreter as a tool: a session for each thread, some kept warm."""
