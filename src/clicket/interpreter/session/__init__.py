"""One worker in its cage, from the host's side."""
