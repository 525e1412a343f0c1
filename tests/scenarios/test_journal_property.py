"""For any sequence of operations: one outcome, no gap, the record is the fold of the events, and no call is lost.

A random sequence of submit, complete, fail, retry, time out, cancel, approve, deny, crash, takeover, lost leases and store
faults runs on real engines over one store; after every step all invariants are checked on the store's own events.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.scenarios.journal_cluster import Cluster
from tests.scenarios.journal_memory import SharedMemory, Side
from tests.scenarios.journal_process import NAMES, Body, Kind, Process

from clicket.testing import Check, shared_store_contract

PICK = st.integers(0, 20)
WORDS = ["return", "return", "fail", "retry", "emit", "progress"]
# Name, does it swallow its cancellation, deadline of the whole call, does its caller wait from the start.
CALLS = st.tuples(st.sampled_from(NAMES), st.booleans(), st.sampled_from([None, None, 5.0, 25.0]), st.booleans())

KINDS: st.SearchStrategy[Kind] = st.sampled_from(["runner", "runner", "front"])


class JournalMachine(RuleBasedStateMachine):
    """Each run has its own event loop; each step runs it until it is idle."""

    kind = "memory"
    cluster: Cluster

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _, context: self.cluster.complaints.append(repr(context)))

    def do(self, step: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(step)

    def teardown(self) -> None:
        try:
            if hasattr(self, "cluster"):
                self.do(self.cluster.finish())
        finally:
            self.do(self.loop.shutdown_asyncgens())
            self.loop.close()

    @property
    def is_open(self) -> bool:
        return bool(self.cluster.processes)

    def pick(self, number: int) -> Process:
        return self.cluster.processes[number % len(self.cluster.processes)]

    def anybody(self, number: int) -> Process:
        """A process, or the observer, which owns nothing."""
        return [*self.cluster.processes, self.cluster.observer][number % (len(self.cluster.processes) + 1)]

    def body(self, number: int) -> Body | None:
        """A body that waits for an instruction. No rule's precondition may depend on whether one exists."""
        return self.cluster.bodies[number % len(self.cluster.bodies)] if self.cluster.bodies else None

    def call(self, number: int) -> str:
        """A call that has not ended, if there is one."""
        ids = sorted(self.cluster.active()) or self.cluster.ids
        return ids[number % len(ids)]

    @initialize(
        hints=st.booleans(),
        waits=st.booleans(),
        kinds=st.lists(KINDS, max_size=2),
        calls=st.lists(st.tuples(PICK, CALLS), min_size=1, max_size=3),
    )
    def begin(self, hints: bool, waits: bool, kinds: list[Kind], calls: list[Any]) -> None:
        """A store may send hints; a memory store may answer synchronously."""
        self.cluster = Cluster(self.kind, hints=hints, waits=waits or self.kind == "sqlite")
        self.do(self.cluster.start())
        for kind in kinds:
            self.do(self.cluster.reopen(kind, alone=False))
        self._submit(calls)

    @precondition(lambda self: self.is_open and len(self.cluster.ids) < 12)
    @rule(calls=st.lists(st.tuples(PICK, CALLS), min_size=1, max_size=3))
    def submit(self, calls: list[Any]) -> None:
        self._submit(calls)

    @precondition(lambda self: self.is_open and len(self.cluster.ids) < 12)
    @rule(call=CALLS, times=st.integers(2, 4))
    def crowd(self, call: Any, times: int) -> None:
        """Equal calls, in all processes at once."""
        self._submit([(process, call) for process in range(times)])

    @precondition(lambda self: self.is_open and self.cluster.ids)
    @rule(number=PICK, process=PICK, direct=st.booleans())
    def submit_again(self, number: int, process: int, direct: bool) -> None:
        self.do(self.cluster.submit_again(self.pick(process), self.call(number), direct))

    def _submit(self, calls: list[Any]) -> None:
        for process, call in calls:
            self.do(self.cluster.submit(self.pick(process), *call))

    @rule(number=PICK, word=st.sampled_from(WORDS))
    def tell(self, number: int, word: str) -> None:
        if body := self.body(number):
            self.do(self.cluster.tell(body, word))

    @rule(seconds=st.sampled_from([0.05, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0]), listen=st.booleans())
    def advance(self, seconds: float, listen: bool) -> None:
        self.do(self.cluster.advance(seconds))
        if listen:
            self.do(self.cluster.do("listen", *self.cluster.processes))

    @precondition(lambda self: self.is_open and self.cluster.ids)
    @rule(number=PICK, process=PICK, leaves=st.booleans())
    def cancel(self, number: int, process: int, leaves: bool) -> None:
        async def step() -> None:
            id = self.call(number)
            if leaves:
                self.cluster.caller_leaves(id)
            else:
                self.cluster.cancel(self.pick(process), id)
            await self.cluster.settle()

        self.do(step())

    @rule(number=PICK, word=st.sampled_from(["return", "fail", "retry"]), seconds=st.sampled_from([0.0, 10.0]))
    def race(self, number: int, word: str, seconds: float) -> None:
        """The body ends, times out and is cancelled, all in one iteration of the loop."""

        async def step() -> None:
            if body := self.body(number):
                if not body.told.done():
                    body.told.set_result(word)
                self.cluster.cancel(body.process, body.id)
            await self.cluster.advance(seconds)

        self.do(step())

    @precondition(lambda self: self.cluster.ids)
    @rule(number=PICK, process=PICK)
    def cancel_from_anywhere(self, number: int, process: int) -> None:
        self.do(self.cluster.cancel_from(self.anybody(process), self.call(number)))

    @rule(number=PICK, process=PICK, approved=st.booleans(), listen=st.booleans())
    def decide(self, number: int, process: int, approved: bool, listen: bool) -> None:
        """The owner reads the decision at once, soon, or at its next write."""
        self.do(self.cluster.decide(self.anybody(process), number, approved))
        if listen:
            self.do(self.cluster.do("listen", *self.cluster.processes))

    @precondition(lambda self: self.is_open)
    @rule(number=PICK, what=st.sampled_from(["listen", "renew", "recover", "recover"]))
    def chore(self, number: int, what: str) -> None:
        self.do(self.cluster.do(what, self.pick(number)))

    @precondition(lambda self: self.is_open)
    @rule(number=PICK, what=st.sampled_from(["hold", "hold soon", "release", "step"]))
    def disk(self, number: int, what: str) -> None:
        """The disk blocks; or it continues, or lets one request through."""
        faulty_store = self.pick(number).faulty_store

        async def step() -> None:
            if what.startswith("hold"):
                faulty_store.hold_up(after=0 if what == "hold" else 1)
            else:
                faulty_store.release(1 if what == "step" else None)
            await self.cluster.settle()

        self.do(step())

    @rule(number=PICK, word=st.sampled_from(WORDS), times=st.integers(1, 4), lose=st.booleans())
    def fault(self, number: int, word: str, times: int, lose: bool) -> None:
        """A call's next writes fail; or they succeed without an answer."""
        if body := self.body(number):
            if lose:
                body.process.faulty_store.losing = times
            else:
                body.process.faulty_store.failing = times
            self.do(self.cluster.tell(body, word))

    @precondition(lambda self: self.is_open)
    @rule(number=PICK, times=st.integers(1, 3), lose=st.booleans())
    def stumble(self, number: int, times: int, lose: bool) -> None:
        """A process's next requests to the store (claims, slots, reads) fail; or they take effect without an answer."""
        faulty_store = self.pick(number).faulty_store
        if lose:
            faulty_store.forgetting = times
        else:
            faulty_store.stumbling = times

    @precondition(lambda self: self.is_open)
    @rule(number=PICK)
    def crash(self, number: int) -> None:
        self.do(self.cluster.crash(self.pick(number)))

    @precondition(lambda self: len(self.cluster.processes) < 3)
    @rule(kind=KINDS, alone=st.booleans(), slow=st.booleans())
    def reopen(self, kind: Kind, alone: bool, slow: bool) -> None:
        """Also while others still run: beside them, or considering their leases expired."""
        self.do(self.cluster.reopen(kind, alone=alone, slow=slow))

    @precondition(lambda self: self.is_open)
    @rule(number=PICK)
    def expire(self, number: int) -> None:
        self.do(self.cluster.expire(self.pick(number)))

    @precondition(lambda self: self.is_open)
    @rule(number=PICK)
    def leave(self, number: int) -> None:
        self.do(self.cluster.leave(self.pick(number)))

    @invariant()
    def laws_hold(self) -> None:
        self.do(self.cluster.check())


class SqliteMachine(JournalMachine):
    kind = "sqlite"


# Some 75 in the short form, which repeats the same ones, with those of test_telemetry_property.py, which check these
# invariants and one more; some thousands in the long form, which takes long.
LONG = os.environ.get("HYPOTHESIS_PROFILE") == "long"
TestMemory = JournalMachine.TestCase
TestMemory.settings = settings(max_examples=settings().max_examples * 4 if LONG else settings().max_examples // 2)
TestSqlite = SqliteMachine.TestCase
TestSqlite.settings = settings(max_examples=settings().max_examples * 2 if LONG else settings().max_examples // 4)
TestMemory.pytestmark = TestSqlite.pytestmark = [pytest.mark.timeout(3600)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("check", shared_store_contract, ids=lambda check: check.__name__)
async def test_the_memory_that_is_shared_keeps_the_laws_of_stores(check: Check) -> None:
    """Otherwise the tests over it would prove nothing."""
    shared = SharedMemory(hints=check.__name__ == "changes_of_tool_health_are_hinted")
    await check(lambda: Side(shared))
