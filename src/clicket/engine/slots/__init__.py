"""How many calls may run at once, and how often they may start.

- `limits`, `plans`: `Limits` of a runtime; what each tool's calls need of them
- `gate`, `shared_slots`: slots of this runtime, and slots that all runtimes over a store share
- `rates`: tokens of tools with a rate
"""
