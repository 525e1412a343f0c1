"""Sums of the ledger. Every entry belongs to one run, thread, agent, caller, day and month, so the `own` amounts of each grouping add up
to the same total. The amounts of a run, a thread or an agent include those of the agents that it called."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import pairwise
from typing import get_args

from clicket.engine.spend.ledger import LedgerEntry, LedgerPage, day_of
from clicket.errors import UsageError, did_you_mean
from clicket.model.spend import Amount, By, Run, SpendReport, SpendRow, usd

__all__ = ["spend_report"]

_NONE = "(none)"
_IN_ORDER = ("caller", "day", "month")


class _Sums:
    __slots__ = ("assumed", "cache_write", "cached", "entries", "input", "nano", "output", "tokens", "unpriced")

    def __init__(self) -> None:
        self.nano = self.input = self.output = self.cached = self.cache_write = 0
        self.tokens = self.unpriced = self.assumed = self.entries = 0

    def add(self, entry: LedgerEntry) -> None:
        self.nano += entry.nano or 0
        self.input += entry.input
        self.output += entry.output
        self.cached += entry.cached
        self.cache_write += entry.cache_write
        self.tokens += entry.all_tokens
        self.entries += 1
        if entry.nano is None:
            self.unpriced += entry.all_tokens
        elif entry.assumed:
            self.assumed += entry.nano

    def fields(self) -> dict[str, float]:
        return {
            "usd": usd(self.nano),
            "tokens": self.tokens,
            "input_tokens": self.input,
            "output_tokens": self.output,
            "cached_tokens": self.cached,
            "cache_write_tokens": self.cache_write,
            "unpriced_tokens": self.unpriced,
            "assumed_usd": usd(self.assumed),
            "entries": self.entries,
        }


_Key = tuple[str, str]
"""The caller, for runs and threads, which belong to one; and the name."""


async def spend_report(
    pages: AsyncIterator[LedgerPage],
    by: By,
    *,
    since: float | None = None,
    until: float | None = None,
    caller: str | None = None,
    thread: str | None = None,
    agent: str | None = None,
) -> SpendReport:
    """Sum up the entries of some pages. `thread` and `agent` also take what agents spent that they called."""
    check_by(by)
    total = _Sums()
    own = dict[_Key, _Sums]()
    whole = dict[_Key, _Sums]()
    parents: dict[_Key, str] = {}
    async for page in pages:
        runs = page.runs
        if (
            not runs
            or (caller is not None and page.caller != caller)
            or (thread is not None and all(run.thread != thread for run in runs))
            or (agent is not None and all(run.agent != agent for run in runs))
        ):
            continue
        for entry in page.entries.values():
            if (since is not None and entry.at < since) or (until is not None and entry.at >= until):
                continue
            total.add(entry)
            keys = _keys(by, page, entry)
            own.setdefault(keys[-1], _Sums()).add(entry)
            for key in dict.fromkeys(keys):
                whole.setdefault(key, _Sums()).add(entry)
            if by in ("run", "thread") and len(keys) > 1:
                parents.update((below, above[1]) for above, below in pairwise(keys))
    rows = [
        SpendRow(
            key=key[1] or _NONE, own=Amount(**(own[key].fields() if key in own else {})),  # type: ignore[arg-type]  # ints where it says int
            caller=key[0] if by in ("run", "thread") else None, parent=parents.get(key), **sums.fields(),  # type: ignore[arg-type]
        )
        for key, sums in whole.items()
    ]  # fmt: skip
    rows.sort(key=(lambda row: row.key) if by in _IN_ORDER else (lambda row: (-row.usd, -row.tokens, row.key)))
    return SpendReport(by=by, since=since, until=until, items=rows, total=Amount(**total.fields()))  # type: ignore[arg-type]


def check_by(by: str) -> None:
    known = get_args(By)
    if by not in known:
        raise UsageError(
            f"spend is not reported by {by!r:.50}.{did_you_mean(str(by), known)} Known: {', '.join(known)}."
        )


def _keys(by: By, page: LedgerPage, entry: LedgerEntry) -> list[_Key]:
    """The groups that an entry belongs to: its own last, before it those above."""
    match by:
        case "run" | "thread":
            return [(page.caller, _name(by, run)) for run in page.runs]
        case "agent":
            return [("", run.agent) for run in page.runs]
        case "caller":
            return [("", page.caller)]
        case "model":
            return [("", entry.name if entry.kind == "model" else f"tool {entry.name}")]
        case "day":
            return [("", day_of(entry.at))]
        case "month":
            return [("", day_of(entry.at)[:7])]


def _name(by: By, run: Run) -> str:
    return run.name if by == "run" else run.thread
