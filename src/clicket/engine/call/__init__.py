"""Decides about one call. Pure: no clock, no store, no task; facts in, a verdict out. The classes of the engine act on the verdict.

- `next_step`: a call of which no body runs
- `doubt`: an attempt whose outcome is not known
- `claimed`: a call that this process has just claimed from the store
- `attempts`: an attempt that ended without an output
- `stops`: a call that is to stop
- `decided`: a call that a person has decided about
- `undoing`: the undo of a call
- `foreign`: events that other processes want to write into it
"""
