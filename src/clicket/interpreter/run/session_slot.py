"""The session that one run leaves for the next. What a lost session knew is remembered until a run has been told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

from clicket.errors import UsageError
from clicket.interpreter.files.outputs import Signature
from clicket.interpreter.session.session import Session

__all__ = ["SessionSlot", "listed"]

_NAMED = 20
_MOST, _LONGEST = 2_000, 200
"""Names that are remembered, and their characters. A program can claim to have had any, again and again."""


class SessionSlot:
    """Holds at most one session, and starts one when a run needs it."""

    def __init__(self, start: Callable[[], Awaitable[Session]]) -> None:
        self.session: Session | None = None
        self.runs: int = 0
        """Runs in this session, the current one among them."""
        self.signatures: dict[str, Signature] = {}
        """The files of the work folder, as the last run left them."""
        self.empty_at: int | None = None
        """The same for a folder without files: the time of its last change."""
        self.why: str = ""
        """How the last session was lost."""
        self._start = start
        self._lost: frozenset[str] = frozenset()
        self._notice = ""
        self._closed = False

    async def take(self) -> Session:
        """The session of the runs before, or a fresh one."""
        if self.session is not None and not self.session.alive:
            exit_reason = self.session.exit_reason
            await self.drop(
                f"it ended between two runs{f' ({exit_reason.status}: {exit_reason.reason})' if exit_reason else ''}"
            )
        if self.session is None:
            session = await self._start()
            if self._closed:  # meanwhile
                await session.close()
                raise UsageError("the interpreter was closed while a session was started.")
            self.session = session
            self.runs = 0
            self.signatures, self.empty_at = {}, None
        self.runs += 1
        return self.session

    async def drop(self, why: str, names: Iterable[str] = ()) -> None:
        """End the session and remember what went with it: its names, and those that its last run was about to make."""
        session, self.session = self.session, None
        if session is None:
            return
        self.why = why
        lost = (name for name in (*names, *session.names, *self._lost) if len(name) <= _LONGEST)
        self._lost = frozenset(islice(lost, _MOST))
        self._notice = f"The session began anew, because the one before is gone: {why}."
        if self._lost:
            self._notice += f" With it went {listed(self._lost)}."
        await session.close()

    async def forget(self) -> None:
        """End the session on purpose: nobody misses what it knew."""
        session, self.session = self.session, None
        self._lost, self._notice, self.why = frozenset(), "", ""
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """For good: a session that is being started is closed as soon as it is there."""
        self._closed = True
        await self.forget()

    @property
    def misses(self) -> bool:
        """Is there anything that a run might miss?"""
        return bool(self._lost)

    def missed(self, loads: Iterable[str]) -> list[str]:
        """Names that the code reads and that only a lost session knew. Once told, they are forgotten."""
        have = self.session.names if self.session is not None else frozenset()
        missed = sorted(self._lost.intersection(loads) - have)
        if missed:
            self._lost, self._notice = frozenset(), ""
        return missed

    def news(self) -> str:
        """What a run should know of the session that it got. Said once."""
        notice, self._notice = self._notice, ""
        return notice


def listed(names: Iterable[str]) -> str:
    """Names for people: the first few, and how many more."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _NAMED} more" if len(ordered) > _NAMED else ""
    return ", ".join(ordered[:_NAMED]) + more
