"""Benchmarks: one script per question, peers beside us in the same run, ratios rather than seconds."""
