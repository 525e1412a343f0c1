"""One call from its acceptance to its end, and what it may wait for on its way.

- `admission`, `next_steps`: accepts a call: the first three stages; then, and after each wait, lets it go on to what it needs next
- `due_calls`, `dep_waits`, `credential_waits`, `approvals`: waits before a body: for its time, its run's deps, a credential of its
  caller, a person
- `running`, `runner`: takes slots, starts attempts, runs bodies; runs attempts until one succeeds or ends the call
- `parking`, `external`, `reconciling`: calls whose body is over without an outcome: in general, for a result from outside, for
  the tool's own check
- `handover`: calls that change their owner
- `stopping`: ends a call that waits, or stops the attempt of one that runs
- `ending`: records how a call ended here, answers its waiters, releases its slots
"""
