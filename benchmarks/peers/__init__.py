"""One script per peer, each run in its own environment; it prints one line of JSON."""
