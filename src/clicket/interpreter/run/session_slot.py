"""The session that the runs of one interpreter share. It remembers the names of a lost session until a run has reported them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

from clicket.errors import UsageError
from clicket.interpreter.files.outputs import Signature
from clicket.interpreter.session.session import Session

__all__ = ["SessionSlot", "listed"]

_MAX_LISTED = 20
_MAX_NAMES, _MAX_LENGTH = 2_000, 200
"""Remembered names, and their characters: a program can report any names, as often as it likes."""


class SessionSlot:
    """Holds at most one session; starts one when a run needs it."""

    def __init__(self, start: Callable[[], Awaitable[Session]]) -> None:
        self.session: Session | None = None
        self.runs: int = 0
        """Runs in this session, with the current one."""
        self.signatures: dict[str, Signature] = {}
        """The files of the work folder, as the last run left them."""
        self.empty_at: int | None = None
        """The ctime of the work folder, if it was empty."""
        self.why: str = ""
        """How the last session was lost."""
        self._start = start
        self._lost: frozenset[str] = frozenset()
        self._warning = ""
        self._closed = False

    async def take(self) -> Session:
        """The session of the earlier runs, or a new one."""
        if self.session is not None and not self.session.alive:
            exit_reason = self.session.exit_reason
            await self.drop(
                f"it ended between two runs{f' ({exit_reason.status}: {exit_reason.reason})' if exit_reason else ''}"
            )
        if self.session is None:
            session = await self._start()
            if self._closed:  # while it was started
                await session.close()
                raise UsageError("the interpreter was closed while a session was started.")
            self.session = session
            self.runs = 0
            self.signatures, self.empty_at = {}, None
        self.runs += 1
        return self.session

    async def drop(self, why: str, names: Iterable[str] = ()) -> None:
        """End the session and remember its names, and `names` that its last run was about to bind."""
        session, self.session = self.session, None
        if session is None:
            return
        self.why = why
        lost = (name for name in (*names, *session.names, *self._lost) if len(name) <= _MAX_LENGTH)
        self._lost = frozenset(islice(lost, _MAX_NAMES))
        self._warning = f"This is a new session, because the previous one ended: {why}."
        if self._lost:
            self._warning += f" Lost names: {listed(self._lost)}."
        await session.close()

    async def forget(self) -> None:
        """End the session and forget its names."""
        session, self.session = self.session, None
        self._lost, self._warning, self.why = frozenset(), "", ""
        if session is not None:
            await session.close()

    async def close(self) -> None:
        """For good: a session that is being started is closed when it has started."""
        self._closed = True
        await self.forget()

    @property
    def misses(self) -> bool:
        """Whether names of a lost session are remembered."""
        return bool(self._lost)

    def missed(self, loads: Iterable[str]) -> list[str]:
        """The names among `loads` that only a lost session had. They are reported once, then forgotten."""
        have = self.session.names if self.session is not None else frozenset()
        missed = sorted(self._lost.intersection(loads) - have)
        if missed:
            self._lost, self._warning = frozenset(), ""
        return missed

    def take_warning(self) -> str:
        """A warning about a new session, for one run; empty if there is none."""
        warning, self._warning = self._warning, ""
        return warning


def listed(names: Iterable[str]) -> str:
    """The first names as text, and how many more there are."""
    ordered = sorted(names)
    more = f" and {len(ordered) - _MAX_LISTED} more" if len(ordered) > _MAX_LISTED else ""
    return ", ".join(ordered[:_MAX_LISTED]) + more
