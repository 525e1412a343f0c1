"""Performs: which part acts when something has happened, and what happens by the clock.

- `driver`: which part acts then
- `chore_schedule`: how often each chore runs
- `bus_handler`: hints and messages of other processes
- `closing`, `draining`: closes a runtime in order; what a worker does that is cordoned or drained
"""
