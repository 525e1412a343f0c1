"""Calls of dead owners, and chores.

- `recovery`, `recovered`: takes over the calls of dead owners; its report
- `chores`: signals, strays, lost calls, sweeps
"""
