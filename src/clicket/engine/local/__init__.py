"""What this process holds for its calls.

- `live_calls`, `timers`, `tasks`: its calls; timers of their waits; tasks
- `background`: timers of repeated work
- `loop_share`: fair use of the event loop
- `activity`: what the engine does now
"""
