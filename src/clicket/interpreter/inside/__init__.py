"""What runs in the cage: the standard library and nothing else, and as little of that as will do before the first block."""
