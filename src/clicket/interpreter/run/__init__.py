"""One run: the machine, step by step, from a task to its result."""
