"""How well deep search finds what a question needs, and what it costs. `make bench-search DATA=<folder>` runs it."""
