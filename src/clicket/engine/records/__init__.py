"""What is on record of calls, read and written.

- `arguments`: the arguments that a call runs with, read from its journal
- `attempt_history`: what the events of a call say about its attempts
- `stored_calls`: calls of other processes, read from the store
- `signals`: events that one process writes into a call of another
- `tool_costs`: costs that tools report
- `undone_calls`: the call that an undo is about
"""
