"""Several processes over one store: which of them runs a call.

- `queues`, `claimer`, `capacity`: which queues are claimed from; claiming calls that wait; how many more could start
- `placement`, `offers`: which worker is told of a call; starting a call that a message offers, telling of room
- `sessions`: which process holds a session
- `worker_entry`, `worker_list`: the entry of this runtime among the workers; all workers
"""
