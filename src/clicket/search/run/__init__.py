"""One search, from its options to its result.

- `builder`: checks the options, and puts the parts together
- `spec`: the checked options and the parts
- `machine`: the state machine: decompose, search, analyze, iterate, synthesize
- `part`: runs one part, checks what it returns, and falls back to the built-in one
- `parallel_search`: asks the engine all queries of a round at the same time
- `checkpoints`: saves every finished stage, and replays it after a crash
- `messages`: what the search reports while it runs
"""
