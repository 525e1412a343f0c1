"""What the next commit of a call writes. Nothing staged is visible yet. `Staging.advance` checks a change of state against the table.

The two packed units of `journal.py` do not pass here: `start_and_commit` writes transitions that the table's tests check, and
`complete` writes the one from running to completed.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from clicket.engine.journal.entry import Entry
from clicket.kernel import CALL, State
from clicket.model import EventType, Stage
from clicket.model.ports import CacheUse, Clock, OutcomeStats
from clicket.model.unit import Rows, attempt_data

__all__ = ["Staging"]


class Staging:
    """`worker` and `host`: where attempts run that start here."""

    def __init__(self, clock: Clock, worker: str = "", host: str = "") -> None:
        self._now = clock.now
        self.worker = worker
        self._host = host
        self._edges = CALL.edges

    def record(self, entry: Entry, kind: EventType, data: dict[str, Any], at: float | None = None) -> None:
        """Stage an event that leaves the state as it is."""
        rows = entry.rows
        if rows is None or entry.opening is not None:
            rows = self._rows(entry)
        if at is None:
            now = self._now
            last = entry.last_at
            at = now()
            if at < last:  # noqa: PLR1730  # as in `stamp`: `max` costs three times as much
                at = last
        entry.seq = seq = entry.seq + 1
        entry.last_at = at
        rows.append((seq, at, kind, entry.state, data))

    def replace_last(self, entry: Entry, kind: EventType, data: dict[str, Any]) -> bool:
        """Replace the last staged event, if it is of the same kind and not under way."""
        rows = entry.rows
        if not rows or rows[-1][2] != kind:
            return False
        seq, _, _, state, _ = rows[-1]
        entry.last_at = at = self.stamp(entry)
        rows[-1] = (seq, at, kind, state, data)
        return True

    def record_stages(self, entry: Entry, at: float, stages: Mapping[str, Stage], recorded: int) -> None:
        """Stage the ends of stages; those of the first `recorded` are on record."""
        for name, stage in islice(stages.items(), recorded, None):
            data = {"stage": name, "outcome": stage.outcome, "duration": stage.duration}
            self.record(entry, "stage_ended", data, at)

    def advance(self, entry: Entry, to: State, data: dict[str, Any] | None = None, at: float | None = None) -> None:
        """Stage a change of state, if the table has it; else raise `InvalidTransition` and change nothing."""
        current = entry.state
        if to not in self._edges[current]:
            raise CALL.refusal(current, to)
        rows = self._rows(entry)
        if at is None:
            at = self.stamp(entry)
        entry.state = to
        entry.seq = seq = entry.seq + 1
        entry.last_at = at
        body: dict[str, Any] = {"from": current._value_, "to": to._value_}
        if data is not None:
            body.update(data)
        if not self._edges[to]:
            entry.ended_at = at
        rows.append((seq, at, "state_changed", to, body))

    def start(self, entry: Entry) -> None:
        """Stage the start of the next attempt, with the states on the way to it."""
        if entry.state is State.PENDING:
            self.advance(entry, State.INITIALIZING)
        self.advance(entry, State.RUNNING)
        entry.attempts += 1
        self.record(entry, "attempt_started", attempt_data(entry.attempts, self.worker, self._host))
        if entry.started_at is None:
            entry.started_at = entry.last_at

    def wait_for(self, entry: Entry, what: str | None) -> None:
        """Set what the call waits for from its next commit on; None: nothing."""
        entry.waiting_for = what

    def name_artifact(self, entry: Entry, name: str, size: int) -> None:
        """The call names an artifact from its next commit on, which keeps it for as long as the call is kept."""
        entry.artifacts = (*entry.artifacts, (name, size))

    def give_up_ownership(self, entry: Entry, to: int = 0, queue: str = "") -> None:
        """From its next commit on the call belongs to no process, and waits in `queue`; empty: in the one that it has. `to`: the worker
        that gets a notice of it, as in `Append.to`."""
        entry.owned = False
        entry.to, entry.queue = to, queue or entry.queue

    def wait_in(self, entry: Entry, queue: str) -> None:
        """From its next commit on the call waits in this queue whenever it has no owner."""
        entry.queue = queue

    def discard_staged(self, entry: Entry) -> None:
        """Drop what is staged and not under way, for a call that is released unchanged."""
        entry.seq = entry.durable
        entry.rows = entry.opening = None

    def end(
        self,
        entry: Entry,
        outcome: State,
        data: dict[str, Any],
        at: float,
        stages: Mapping[str, Stage],
        recorded: int,
        stats: OutcomeStats,
        cache_use: CacheUse | None,
    ) -> None:
        """Stage the outcome, with the ends of the stages that led to it; the first `recorded` are on record."""
        if outcome not in self._edges[entry.state]:
            raise CALL.refusal(entry.state, outcome)
        self.record_stages(entry, at, stages, recorded)
        self.advance(entry, outcome, data, at)
        entry.stats, entry.cache_use = stats, cache_use

    def stamp(self, entry: Entry) -> float:
        """Now, but never before the call's last event: the date may be set back while a call runs."""
        now = self._now()
        return max(entry.last_at, now)

    def _rows(self, entry: Entry) -> Rows:
        """The staged events, the beginning of a new call among them."""
        rows = entry.rows
        if rows is None:
            rows = entry.rows = Rows()
        if entry.opening is not None:
            created, arguments, stages, count = entry.opening
            entry.opening = None
            at = entry.created_at
            data = created if arguments is None else {**created, "arguments": arguments}
            rows.append((1, at, "created", State.PENDING, data))
            for name, stage in islice(stages.items(), count):
                ended = {"stage": name, "outcome": stage.outcome, "duration": stage.duration}
                rows.append((len(rows) + 1, at, "stage_ended", State.PENDING, ended))
            entry.seq = len(rows)
        return rows
