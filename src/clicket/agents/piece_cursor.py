"""How far one reader of a turn has come in the pieces of its answers, and which of them it does not get any more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from clicket.agents.agent_result import AgentEvent
from clicket.agents.entries import Entry, Reply, Restart, Tried
from clicket.agents.pieces import Piece, PieceLog

__all__ = ["PieceCursor"]


class PieceCursor:
    """`log`: the name of the log; empty while no entry has named one. `offset`: the end of the last piece. `entry`: the number of the
    last entry."""

    def __init__(self) -> None:
        self.log = ""
        self.offset = 0
        self.entry = 0
        self._answered: dict[str, int] = {}
        """The last step of each branch whose answer the reader has."""
        self._void: dict[str, int] = {}
        """The offsets up to which pieces of branches are void."""

    def read(self, number: int, entry: Entry, *, has_pieces_before: bool = False) -> None:
        """The reader has an entry. `has_pieces_before`: and all pieces that came before it."""
        self.entry = number
        if not entry.log:
            return
        log, at = _place(entry)
        if log != self.log:
            self.log, self.offset = log, at
            self._void.clear()
        elif has_pieces_before:
            self.offset = max(self.offset, at)
        match entry:
            case Reply():
                self._answered[entry.branch] = entry.step
            case Restart():
                self._void[entry.branch] = at
            case Tried() if entry.pieces:
                self._void[entry.branch] = at

    def id_of(self, event: AgentEvent, entry: Entry) -> str:
        """The id from which this reader resumes after an event of the entry that it has just read: one of a concurrent branch may have
        come before pieces of another."""
        is_behind = bool(entry.branch) and _place(entry)[1] > self.offset
        return f"{event.id}.{self.offset}" if is_behind else event.id

    def events(self, pieces: Iterable[Piece], thread: str, turn: int) -> Iterator[AgentEvent]:
        """Those that the reader gets now."""
        for piece in pieces:
            if piece.end <= self.offset or piece.entry > self.entry + 1 or self._is_void(piece):
                continue
            event = piece.event(thread, turn, self.entry + 1, self.offset)
            self.offset = piece.end
            yield event

    def live(self, event: AgentEvent, log: PieceLog | None) -> Iterator[AgentEvent]:
        """A live piece, after those that the reader has missed, and without what it has of it."""
        end = int(event.id.rpartition(".")[2])
        start = end - len(event.data["text"])
        if end <= self.offset:
            return
        if start > self.offset and log is not None:
            yield from self.events(log.after(self.offset, start), event.thread, event.turn)
        if start < self.offset:
            text = event.data["text"][self.offset - start :]
            event = msgspec.structs.replace(event, data={**event.data, "text": text})
        self.offset = end
        yield event

    def _is_void(self, piece: Piece) -> bool:
        return piece.step <= self._answered.get(piece.branch, 0) or piece.end <= self._void.get(piece.branch, 0)


def _place(entry: Entry) -> tuple[str, int]:
    log, _, offset = entry.log.partition(".")
    return log, int(offset) if offset.isdecimal() else 0
