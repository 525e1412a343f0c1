"""Calls of dead owners, and chores.

- `recovery`, `recovered`: takes over the calls of dead owners; its report
- `undoable_calls`: which calls a sweep leaves because they can be undone
- `chores`: signals, strays, lost calls, sweeps
"""
