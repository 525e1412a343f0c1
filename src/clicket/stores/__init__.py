"""Where journals are kept. Each store obeys the laws of `model.ports.store`; `compose` chooses one by its URL.

- `memory`, `memory_call`, `memory_cache`, `memory_records`: `memory://`, for tests and for calls that need not outlive the process
- `memory_queues`, `memory_retention`, `memory_threads`: its calls without an owner, and rates; which ended calls break a bound; threads
- `sqlite/`: `sqlite:///path`, one file, shared by the processes of one machine
- `redis/`, `postgres/`: `redis://` and `postgresql://`, shared by several machines
- `remote`: what stores behind a network share: group commit, retries after a lost connection
- `announcing`: the messages that an append causes
- `news`: new events of several calls, for stores that answer from this machine
- `liveness`: whether the process that owned a call still lives
- `foreign_server`: which kind of server answers, if it is not the kind that the URL names
- `bucket`: a bucket of tokens, for rates
- `fair_order`: the caller that a claim served last; its opening names the file of each store that has the order
"""
