"""One script per peer, each run in an environment of its own; it prints one line of JSON."""
