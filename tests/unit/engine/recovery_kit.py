"""Shared by the tests of `recovery`."""

from __future__ import annotations

from typing import Any

from tests.unit.engine.fakes import Lower, Recorder

from clicket import tool
from clicket.engine.cache.caching import Caching
from clicket.engine.fleet.claimer import WorkClaimer
from clicket.engine.fleet.worker_entry import WorkerEntry
from clicket.engine.lifecycle.approvals import Approvals
from clicket.engine.lifecycle.dep_waits import DepWaits
from clicket.engine.lifecycle.next_steps import NextSteps
from clicket.engine.lifecycle.parking import Parking
from clicket.engine.lifecycle.reconciling import Reconciling
from clicket.engine.live_call import Call, Question
from clicket.engine.people.questions import ask_for_approval
from clicket.engine.recovery.recovered import Recovered
from clicket.engine.recovery.recovery import Recovery
from clicket.engine.slots.gate import SharedSlotGate
from clicket.engine.stages import Policy
from clicket.model import Record
from clicket.model.config import Limits
from clicket.ports import Stored

__all__ = ["Parts", "asked", "asking", "failing", "plain", "repeatable", "rerun", "secretive"]


@tool
async def plain(n: int = 0) -> str:
    return ""


@tool(idempotent=True)
async def repeatable() -> str:
    return ""


@tool(recovery="rerun")
async def rerun() -> str:
    return ""


@tool(recovery="ask")
async def asking() -> str:
    return ""


@tool(idempotent=True, recovery="fail")
async def failing() -> str:
    return ""


@tool(sensitive=["key"])
async def secretive(key: str = "") -> str:
    return ""


class Parts(Lower):
    """`low` calls live in the process that dies; `recover` runs in the next process."""

    def __init__(self, *, gives_away: bool = False, limits: Limits | None = None, policy: Policy | None = None) -> None:
        super().__init__(plain, repeatable, rerun, asking, failing, secretive, limits=limits, policy=policy)
        self.resumed: list[Call] = []
        self.caching: Any = Recorder(Caching)
        self.gate: Any = Recorder(SharedSlotGate)
        self.next_steps: Any = Recorder(NextSteps, go_on=self.resumed.append)
        self.claims = 0

        async def claim() -> None:
            self.claims += 1

        self.inputs.go_on = self.resumed.append
        core = self.with_core(
            gate=self.gate, caching=self.caching, claimer=Recorder(WorkClaimer, claim=claim), gives_away=gives_away
        )
        self.reconciling: Any = Recorder(Reconciling)
        self.parking: Any = Recorder(Parking)
        self.put_away: Any = Recorder(DepWaits)
        self.entered = False
        self.entry: Any = Recorder(WorkerEntry, is_active=True, update=self.enter)
        approvals = Approvals(core, self.ending)
        self.recovery = Recovery(
            core,
            self.ending,
            approvals,
            self.next_steps,
            self.external,
            self.reconciling,
            self.parking,
            DepWaits(core, self.put_away),
            self.entry,
        )

    async def enter(self) -> None:
        self.entered = True

    def die(self, call: Call) -> None:
        """The process that owns the call dies and leaves nothing in memory."""
        self.live.remove(call)
        self.timers.cancel(call)
        self.limiter.release(call)

    async def recover(self, *calls: Call) -> tuple[str, Record]:
        """Claim the calls; returns what recovery did with the first one, and its record."""
        for call in calls:
            self.die(call)
        orphans = [self.store.steal(call) for call in calls]

        renewed: list[bool] = []

        async def renew() -> None:
            renewed.append(True)

        async def claim_orphans(tools: frozenset[str], limit: int) -> list[Stored]:
            assert self.entered, "the worker's entry is written before it claims"
            assert renewed, "and its lease is renewed, else another process takes over at once what it claims"
            claimed, orphans[:] = orphans[:limit], orphans[limit:]
            return claimed

        self.store.renew = renew  # type: ignore[method-assign]
        self.store.claim_orphans = claim_orphans  # type: ignore[method-assign]
        report = await self.recovery.recover()
        await self.settle()
        assert report.total == len(calls)
        (what,) = {name for name in Recovered.__struct_fields__ if getattr(report, name)}
        return what, self.store.record(calls[0])


def asked(parts: Parts, name: str = "plain", timeout: float | None = 60.0) -> Call:
    call = parts.pending(name)
    ask_for_approval(parts.journal, call, Question(), purpose="run", reason="", timeout=timeout)
    parts.journal.commit(call.entry)
    return call
