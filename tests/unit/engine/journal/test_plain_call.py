"""The short way of a plain call is the long way, state by state: whatever comes in between, the same events are stored, the call has the
same state, and the same is called back, as if the journal had no short way."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st
from tests.unit.engine.journal.test_packing import FIRST, LAST, STATS, Desk

from clicket.engine.journal import Journal
from clicket.kernel import State
from clicket.model import Event, Stage, fold, rows_of
from clicket.ports import Append

STATES = (
    "seq", "state", "visible_state", "durable", "attempts", "started_at", "last_at", "ended_at", "waiting_for", "fence", "fenced", "owned",
)  # fmt: skip


class LongWay(Journal):
    """The journal without its two packed units."""

    def start_and_commit(self, entry: Any, then: Any, subject: Any) -> None:
        self.start(entry)
        self.commit(entry, lambda error: then(subject, error))

    def complete(self, *_: Any) -> bool:
        return False


class Call:
    """What the engine does with a call, and what others do with it meanwhile."""

    def __init__(self, *, long: bool, took: list[float], output: Any, metadata: Any) -> None:
        self.desk = desk = Desk()
        if long:
            desk.journal = LongWay(desk.store, desk.clock, lambda work: desk.tasks.append(asyncio.ensure_future(work)))
        desk.stages = {
            name: Stage(stage.outcome, seconds) for (name, stage), seconds in zip(FIRST.items(), took, strict=True)
        }
        self.output, self.metadata = output, metadata
        self.seen: list[Any] = []

    def do(self, act: str) -> None:
        desk, entry = self.desk, self.desk.entry
        if act == "later":
            desk.clock.advance(0.25)
        elif act == "date set back":
            desk.clock.set_date(desk.clock.now() - 10.0)
        elif act == "note":
            desk.journal.record(entry, "note", {"text": "a note"})
        elif act == "commit":
            desk.journal.commit(entry)
        elif act == "held":
            desk.store.holding = True
        elif act == "let through":
            desk.store.let_through()
        elif act == "taken over" and entry.key:
            desk.store._calls[entry.key].claimed()
        elif act == "request" and entry.key and not desk.stored[-1].state.is_terminal:
            last = desk.stored[-1]
            foreign = Event("a", last.seq + 1, last.at, "cancel_requested", last.state, {"reason": "x"})
            row = Append(entry, last.seq, -1, rows_of([foreign]), last.state, key=entry.key, signal=True)
            desk.store.write_at_once(row)
        self.seen.append((act, *self.state()))

    def start(self) -> None:
        self.desk.open()
        self.desk.journal.start_and_commit(self.desk.entry, self._then, "start")
        self.seen.append(("start", *self.state()))

    def end(self) -> None:
        desk = self.desk
        if desk.entry.state is not State.RUNNING or desk.entry.fenced:
            return
        at = desk.journal.stamp(desk.entry)
        desk.stages.update(LAST)
        arguments = (desk.entry, at, desk.stages, 3)
        if not desk.journal.complete(*arguments, 2.0, self.output, self.metadata, STATS, None, self._then, "end"):
            outcome = {"duration": 2.0, "output": self.output}
            data = outcome if self.metadata is None else {**outcome, "metadata": self.metadata}
            desk.journal.end(desk.entry, State.COMPLETED, data, at, desk.stages, 3, STATS, None)
            desk.journal.commit(desk.entry, lambda error: self._then("end", error))
        self.seen.append(("end", *self.state()))

    def _then(self, what: str, error: Any) -> None:
        self.seen.append((what, None if error is None else error.code, *self.state()))

    def state(self) -> list[Any]:
        return [getattr(self.desk.entry, name) for name in STATES]


ACTS = st.lists(
    st.sampled_from(["later", "date set back", "note", "commit", "held", "let through", "request", "taken over"]),
    max_size=5,
)


@given(
    before=st.lists(st.sampled_from(["later", "date set back", "held"]), max_size=2), between=ACTS, after=ACTS,
    took=st.lists(st.floats(0, 1), min_size=3, max_size=3), output=st.sampled_from([None, "out", {"n": [1, None]}]),
    metadata=st.sampled_from([None, {"k": 1}]),
)  # fmt: skip
@example(before=["held"], between=["note", "let through"], after=[], took=[0.1] * 3, output="out", metadata=None)
async def test_the_short_way_is_the_long_way(
    before: list[str], between: list[str], after: list[str], took: list[float], output: Any, metadata: Any
) -> None:
    ways = [Call(long=long, took=took, output=output, metadata=metadata) for long in (False, True)]
    for call in ways:
        for act in before:
            call.do(act)
        call.start()
        for act in between:
            call.do(act)
            await call.desk.clock.settle()
        call.end()
        for act in after:
            call.do(act)
            await call.desk.clock.settle()
        call.do("let through")
        await call.desk.clock.settle()
    short, long = ways
    assert short.seen == long.seen
    assert short.state() == long.state()
    assert short.desk.entry.events == long.desk.entry.events
    if short.desk.entry.key or long.desk.entry.key:
        assert short.desk.stored == long.desk.stored
        fold(short.desk.stored)
