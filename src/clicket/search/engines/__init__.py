"""Search engines of all kinds, made one."""
