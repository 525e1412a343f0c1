"""One call in the journal. Only the journal writes to it; every part may read it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clicket.errors import ClicketError
from clicket.kernel import State
from clicket.model import Event, Stage, events_in
from clicket.model.unit import Rows, Unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clicket.model.ports import Append, CacheUse, OutcomeStats

__all__ = ["Entry", "OnDurable", "Then"]

OnDurable = Callable[[ClicketError | None], None]
"""Called once what was committed is durable (None), or can never be (the error)."""
Then = Callable[[Any, ClicketError | None], None]
"""As `OnDurable`, for the two packed units: it also gets what the committer passed along, so that no call needs a closure."""


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """Not a struct of msgspec: that would take a quarter of a microsecond less to make, and half a microsecond more to write to
    in the life of a plain call."""

    # Identity: fixed when it is made.
    id: str
    thread: str
    caller: str
    tool: str
    """The tool's name."""
    created_at: float
    priority: int = 0
    internal: bool = False
    """A call of one of clicket's own parts, such as an agent's turn."""
    unless: tuple[str, str] | None = None
    """The document that must not be there when the call is created, as in `Append.unless`."""
    maker: Entry | None = None
    """The call that makes it, as in `Append.maker`."""

    # The call's row in the store.
    key: int = 0
    fence: int = 1
    owned: bool = True
    """False: from its next commit on the call belongs to no process, and any may claim it."""
    queue: str = ""
    """The queue in which it waits then; empty: the one that it has."""
    fenced: bool = False
    """Another process owns the call: nothing more can be written from here."""
    claims: bool = False
    """The call has no owner yet: its next commit claims it, or is refused for good."""
    to: int = 0
    """The worker that is told of a call that is left to others, as in `Append.to`."""

    # Where the call is. `state` and `seq` run ahead of what is durable.
    state: State = State.PENDING
    seq: int = 0
    last_at: float = 0.0
    """The time of the last event: no later event is dated before it."""
    waiting_for: str | None = None
    attempts: int = 0
    """How many attempts have started."""
    started_at: float | None = None
    ended_at: float | None = None
    durable: int = 0
    """The number of the last durable event; 0: the call does not exist yet."""
    visible_state: State = State.PENDING
    """The state in the store: the one to show to callers."""

    # What the next commit writes.
    opening: tuple[dict[str, Any], Any, Mapping[str, Stage], int] | None = None
    """The data of `created`, the arguments, the stages, and how many of them had ended; not yet a unit."""
    rows: Rows | None = None
    artifacts: tuple[tuple[str, int], ...] = ()
    stats: OutcomeStats | None = None
    cache_use: CacheUse | None = None

    # What is under way.
    inflight: Append | None = None
    then: tuple[Then, Any] | None = None
    """For the packed unit under way, and what it gets; called before the callbacks."""
    callbacks: tuple[OnDurable, ...] = ()
    """For the unit under way."""
    later: tuple[OnDurable, ...] = ()
    """For the unit after it."""
    commits_soon: bool = False
    """A commit at the end of this iteration of the loop is scheduled."""
    watchers: tuple[asyncio.Future[None], ...] = ()

    _events: list[Event] | None = None
    _units: tuple[Unit, ...] = ()
    """Durable units whose events were not built yet."""

    def __repr__(self) -> str:
        return f"<entry {self.id} {self.state}>"

    @property
    def events(self) -> list[Event]:
        """The durable events, in order. They are built from the units at the first access."""
        if self._events is None:
            self._events = []
        if self._units:
            units, self._units = self._units, ()
            for unit in units:
                self._events += events_in(unit, self.id)
        return self._events

    @property
    def stages(self) -> dict[str, Stage]:
        """The recorded outcomes of stages."""
        return {
            event.data["stage"]: Stage(event.data["outcome"], event.data["duration"])
            for event in self.events
            if event.type == "stage_ended"
        }

    @property
    def sent(self) -> tuple[int, int, int]:
        """Its row once the store has all that was handed to it, as in `Append.maker`."""
        return self.key, self.durable if self.inflight is None else self.inflight.last, self.fence

    @property
    def has_staged(self) -> bool:
        """Is something staged that is not under way?"""
        return bool(self.rows) or self.opening is not None

    @property
    def is_new(self) -> bool:
        """Is nothing of it on record, nor on its way to the store?"""
        return not self.durable and self.inflight is None

    @property
    def is_idle(self) -> bool:
        """Is everything durable that was staged?"""
        return self.inflight is None and not self.rows and self.opening is None
