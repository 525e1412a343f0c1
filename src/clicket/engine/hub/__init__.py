"""Which tools a thread may use now: dependencies, the circuit breaker, and statuses that a person set. All processes share it.

- `judge`: decides from a tool's health on record: the circuit breaker and the dependencies. `engine.stages.persist` says which outcomes
  count as failures, and `model.ports.health` how they are counted
- `hub`: `Hub`, which reads the health of threads from the store and reports changes
- `thread`: `ThreadHub`, the hub of one thread; an operator sets statuses here
- `prompt`, `snapshot`: the statuses as text for a model, and as JSON
"""

from __future__ import annotations

from clicket.engine.hub.hub import Change, Hub
from clicket.engine.hub.judge import ToolState, ToolView
from clicket.engine.hub.thread import ThreadHub

__all__ = ["Change", "Hub", "ThreadHub", "ToolState", "ToolView"]
