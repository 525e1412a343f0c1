"""What a tool's calls need to start, and how many more could start here."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.live_call import Call, Origin
from clicket.engine.slots.plans import Plans
from clicket.runtime.settings import Settings
from clicket.tools import Registry


@tool(max_retries=5)
async def plain() -> str:
    return ""


@tool
def blocking() -> str:
    return ""


@tool(max_concurrency=2)
async def limited() -> str:
    return ""


@tool(isolation="process")
def isolated() -> str:
    return ""


LIMITS = Settings(max_concurrency=10, worker_threads=4, tool_processes=3).limits


@pytest.mark.parametrize(
    ("name", "lane", "needs"),
    [
        ("plain", "loop", (("runtime", 10),)),
        ("blocking", "thread", (("runtime", 10), ("lane", "thread", 4))),
        ("isolated", "process", (("runtime", 10), ("lane", "process", 3))),
        ("limited", "loop", (("runtime", 10), ("tool", "limited", 2))),
    ],
)
async def test_what_a_call_needs(name: str, lane: str, needs: Any) -> None:
    call = Lower(plain, blocking, limited, isolated, limits=LIMITS).admitted(name)
    assert (call.plan.lane, call.plan.needs) == (lane, needs)
    assert call.plan.max_retries == (5 if name == "plain" else 3)


async def test_a_bound_per_thread_counts_one_threads_calls() -> None:
    low = Lower(plain, limits=Settings(max_thread_concurrency=2).limits)
    one, two = low.admitted("plain", thread="t1", caller="ann"), low.admitted("plain", thread="t2", caller="ann")
    assert one.plan.needs[-1] == ("thread", "ann", "t1", 2)
    assert two.plan.needs[-1] == ("thread", "ann", "t2", 2)


async def test_a_blocking_caller_gets_the_blocking_body_where_there_is_one() -> None:
    low = Lower(plain, limits=LIMITS)
    call = low.made("plain")
    sync = Call(call.entry, call.request, Origin(prefer_sync=True), 0.0, "", {})
    for each in (sync, call):
        low.pipeline.find(each)
        low.plans.fit(each)
    has_both = call.required_tool().run_sync is not None
    assert (sync.plan.lane, call.plan.lane) == ("thread" if has_both else "loop", "loop"), (
        "and the other call's plan is unchanged"
    )


async def test_how_many_more_could_start() -> None:
    registry, plans = Registry([plain, blocking, limited]), Plans(LIMITS)
    assert plans.rooms(registry, {}, internal_only=False) == {"plain": 10, "blocking": 4, "limited": 2}
    used = {("runtime", 10): 9, ("tool", "limited", 2): 2}
    assert plans.rooms(registry, used, internal_only=False) == {"plain": 1, "blocking": 1, "limited": 0}
    assert plans.rooms(registry, {}, internal_only=True) == {}, "another process runs them"
