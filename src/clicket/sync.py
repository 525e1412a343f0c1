"""The blocking API: the same names, for programs without an event loop. Each runtime has one loop in one thread.

    with clicket.sync.Runtime(tools=[add]) as rt:
        rt.call("add", {"a": 1, "b": 2})
        agent = clicket.sync.ReActAgent(rt, model)
        agent.run("What is 1 + 2?", thread="t1").text

`Client` is `clicket.client.SyncClient`, for a runtime of a server. All of it is written from the async classes, by `scripts/blocking.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clicket.runtime.blocking import (
    Audit,
    Cache,
    CallHandle,
    Credentials,
    Grants,
    Notices,
    Runtime,
    Schedules,
    SpendView,
    Subscription,
    ThreadHub,
    Workers,
)

if TYPE_CHECKING:
    from clicket.client.sync import SyncClient as Client
    from clicket.runtime.blocking_agents import Agent, PlanExecuteAgent, ReActAgent

__all__ = [
    "Agent",
    "Audit",
    "Cache",
    "CallHandle",
    "Client",
    "Credentials",
    "Grants",
    "Notices",
    "PlanExecuteAgent",
    "ReActAgent",
    "Runtime",
    "Schedules",
    "SpendView",
    "Subscription",
    "ThreadHub",
    "Workers",
]

# Fetched when they are first used: most programs need neither agents nor a client.
_HOMES = {
    "Agent": ("clicket.runtime.blocking_agents", "Agent"),
    "Client": ("clicket.client.sync", "SyncClient"),
    "PlanExecuteAgent": ("clicket.runtime.blocking_agents", "PlanExecuteAgent"),
    "ReActAgent": ("clicket.runtime.blocking_agents", "ReActAgent"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'clicket.sync' has no attribute {name!r}")
    home, original = _HOMES[name]
    value = globals()[name] = getattr(import_module(home), original)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
