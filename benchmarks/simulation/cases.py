"""The situations that are simulated by default, and what each one shows."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchmarks.simulation.fleet import Fleet, Plan, Report

__all__ = ["CASES", "Case", "limit_of"]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    about: str
    plan: Plan


_BASE = Plan(seconds=20, rate=4_000, callers=50, submitters=8, workers=1_000, slots=10, body=1.0, store_cores=8)


def _changed(**changes: object) -> Plan:
    return msgspec.structs.replace(_BASE, **changes)


CASES = (
    Case(name="base", about="1,000 workers, 4,000 calls/s of 1 s each, 8 cores for the store", plan=_BASE),
    Case(
        name="no messages", about="every message is lost: the poll alone finds work", plan=_changed(lost_messages=1.0)
    ),
    Case(name="half of the messages", about="half of the messages are lost", plan=_changed(lost_messages=0.5)),
    Case(name="5,000 workers", about="the same calls, five times the workers", plan=_changed(workers=5_000)),
    Case(
        name="5,000 workers, poll 2 s",
        about="a bus carries the messages, so the poll can be rare",
        plan=_changed(workers=5_000, poll=2.0),
    ),
    Case(
        name="kills",
        about="100 workers are killed and replaced after 5 s; half of the calls may not run twice",
        plan=_changed(kills=100, idempotent=0.5),
    ),
    Case(
        name="pauses",
        about="50 workers stop for longer than their lease and go on",
        plan=_changed(pauses=50, idempotent=0.5),
    ),
    Case(
        name="slow store",
        about="for 5 s every transaction and flush takes 10 times as long",
        plan=_changed(slow_from=5.0, slow_until=10.0, slow_factor=10.0),
    ),
    Case(
        name="one greedy caller",
        about="50,000 calls of one caller at once, and the others' as before",
        plan=_changed(rate=2_000, greedy=50_000),
    ),
    Case(name="a million calls", about="250 s of the base case", plan=_changed(seconds=250)),
)


def limit_of(plan: Plan, *, wait: float = 0.1, run: Callable[[Plan], Report] | None = None) -> tuple[float, Report]:
    """The highest rate at which 95 % of the calls start within `wait` seconds, to one part in twenty."""
    run = run or (lambda plan: Fleet(plan).run())
    low, high, found = 0.0, plan.rate, None
    while True:
        report = run(msgspec.structs.replace(plan, rate=high))
        if report.wait_p95 > wait:
            break
        low, high, found = high, 2 * high, report
    while high - low > low / 20 and high - low > 1.0:
        middle = (low + high) / 2
        report = run(msgspec.structs.replace(plan, rate=middle))
        if report.wait_p95 > wait:
            high = middle
        else:
            low, found = middle, report
    return low, found or report
