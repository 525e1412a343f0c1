"""Deep search: several rounds over your own files or the web, an answer that cites what it read, nothing else."""
