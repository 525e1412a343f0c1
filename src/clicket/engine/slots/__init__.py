"""How many calls may run at once, and how often they may start.

- `plans`: which slots of the runtime each tool's calls need
- `gate`, `shared_slots`: slots of this runtime, and slots that all runtimes over a store share
- `rates`: tokens of tools with a rate
"""
