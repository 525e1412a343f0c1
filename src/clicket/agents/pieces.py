"""The pieces of a turn's answers that are not on record yet, kept in the store for readers in any process (`deltas="stored"`).

All pieces of one process's run of a turn are one log: a text with offsets, counted in characters. The log is written in pages, small
documents of which the last one is written again while it grows: at most every 200 ms, or when 4 KiB have come. What cannot be written in
time waits, joined, for the next write. So the model never waits, and memory holds no more than the answers that are under way. Pieces are
removed when the entry is durable that has their answer, or makes them void.

Each entry of the turn names the log and the offset at which it was written (`Entry.log`). So a log that no entry names, of a process
that has lost the turn, is never read.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

import msgspec

from clicket.agents.agent_result import AgentEvent
from clicket.agents.entries import Ended, Entry, Reply, Restart, Tried
from clicket.agents.memory import PIECES
from clicket.errors import ClicketError
from clicket.model.codec import has_surrogate
from clicket.model.ids import new_id
from clicket.model.ports import AgentHost, Timer
from clicket.model.ports.records import Records
from clicket.safety.vault import has_marker, holds_secret

__all__ = ["Piece", "PieceLog", "Stream", "closes", "delete_pages", "pages_of", "remove_pieces"]

WRITE_EVERY = 0.2
"""Seconds between two writes, if less than `PAGE` has come."""
PAGE = 4 * 1024
"""Bytes of text after which a page is written at once, and the next one is begun."""
_MAX_PAUSE = 5.0
_READ = 32
"""Pages in one read."""
_OVERLAP = 512
"""Characters that are looked at together with those that follow: a secret may come in several pieces."""

Stream = tuple[str, int]
"""The branch and the step of an answer."""


class Piece(msgspec.Struct, frozen=True, array_like=True):
    """`entry`: the number of the turn's next entry when it came. `start`: its offset in the log."""

    entry: int
    start: int
    branch: str
    step: int
    kind: str
    use: int
    at: float
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def stream(self) -> Stream:
        return self.branch, self.step

    def event(self, thread: str, turn: int, entry: int, after: int) -> AgentEvent:
        """What of it comes after an offset, for a reader whose next entry is `entry`."""
        data: dict[str, Any] = {"kind": self.kind, "text": self.text[max(after - self.start, 0) :]}
        if self.kind in ("name", "arguments"):
            data["use"] = self.use
        if self.branch:
            data["branch"] = self.branch
        id = piece_id(turn, entry, self.end)
        return AgentEvent(type="delta", thread=thread, turn=turn, at=self.at, step=self.step, id=id, data=data)


class _Page(msgspec.Struct, frozen=True, array_like=True):
    """The log from one offset to another. Pieces that were void or on record when it was written are left out."""

    begin: int
    end: int
    pieces: list[Piece]


_decoder = msgspec.json.Decoder(_Page)
_encode = msgspec.json.Encoder().encode


class _Growing:
    """A piece to which text is added."""

    __slots__ = ("_parts", "_piece", "end")

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._parts = [piece.text]
        self.end = piece.end

    @property
    def start(self) -> int:
        return self._piece.start

    @property
    def stream(self) -> Stream:
        return self._piece.stream

    def takes(self, piece: Piece) -> bool:
        """Is it more of the same?"""
        mine = self._piece
        return (mine.entry, mine.branch, mine.step, mine.kind, mine.use, self.end) == (
            piece.entry, piece.branch, piece.step, piece.kind, piece.use, piece.start,
        )  # fmt: skip

    def grow(self, text: str) -> None:
        self._parts.append(text)
        self.end += len(text)

    def whole(self) -> Piece:
        if len(self._parts) > 1:
            self._parts = ["".join(self._parts)]
            self._piece = msgspec.structs.replace(self._piece, text=self._parts[0])
        return self._piece


class _OpenPage:
    """A page in memory. `saved`: the offset up to which the store has it; None: no write of it was begun."""

    __slots__ = ("begin", "end", "number", "pieces", "saved", "size")

    def __init__(self, number: int, begin: int) -> None:
        self.number = number
        self.begin = begin
        self.end = begin
        self.size = 0
        self.saved: int | None = None
        self.pieces: list[_Growing] = []


class PieceLog:
    """Of one run of a turn."""

    def __init__(self, host: AgentHost, key: str, turn: int, *, start: int = 0) -> None:
        """`key`: of the thread's documents. `start`: the offset at which it begins."""
        self.name: str = new_id()[-12:]
        self.turn: int = turn
        self.offset: int = start
        self._host = host
        self._thread = f"{key}/"
        self._prefix = _prefix(key, turn, self.name)
        self._pages = [_OpenPage(0, start)]
        self._open: set[Stream] = set()
        self._secret: set[Stream] = set()
        self._unsaved = 0
        self._gone: deque[str] = deque()
        self._is_working = False
        self._timer: Timer | None = None
        self._pause = 0.0
        self._is_first = True
        """No entry of this process is durable yet."""
        self._must_sweep = False
        self._is_over = False

    @property
    def place(self) -> str:
        """What an entry says that is written now."""
        return f"{self.name}.{self.offset}"

    # Adding and removing. None of it waits.

    def add(self, entry: int, branch: str, step: int, kind: str, text: str, use: int = 0) -> str:
        """The next piece; returns the id of its event. `entry`: as of `Piece`."""
        if has_surrogate(text):  # stores take UTF-8; offsets stay
            text = text.encode(errors="replace").decode()
        piece = Piece(entry, self.offset, branch, step, kind, use, self._host.clock.now(), text)
        self.offset = piece.end
        page = self._pages[-1]
        page.end = piece.end
        self._open.add(piece.stream)
        if piece.stream not in self._secret and not self._is_over:
            if page.pieces and page.pieces[-1].takes(piece):
                page.pieces[-1].grow(text)
            else:
                page.pieces.append(_Growing(piece))
            size = len(text.encode())
            page.size += size
            self._unsaved += size
            self._write_in(0.0 if self._unsaved >= PAGE else WRITE_EVERY)
        return piece_id(self.turn, entry, piece.end)

    def is_open(self, stream: Stream) -> bool:
        """Has it pieces that are neither on record nor void?"""
        return stream in self._open

    def take(self, entry: Entry) -> bool:
        """An entry is about to be written. True: call `recorded` when it is durable."""
        self._open = {stream for stream in self._open if not closes(entry, stream)}
        return self._is_first or isinstance(entry, Reply | Restart | Tried | Ended)

    def recorded(self, entry: Entry, upto: int) -> None:
        """The entry, which was written at the offset `upto`, is durable."""
        if self._is_first:  # so this process owns the turn: what others have left in the thread is void
            self._is_first, self._must_sweep = False, True
        for page in list(self._pages):
            if page.begin < upto:
                page.pieces = [each for each in page.pieces if each.end > upto or not closes(entry, each.stream)]
                if not page.pieces:
                    self._remove(page)
        if self._has_work:
            self._write_in(WRITE_EVERY)

    def _remove(self, page: _OpenPage) -> None:
        self._pages.remove(page)
        if page.saved is not None:
            self._gone.append(_page_key(self._prefix, page.number))
        if not self._pages:
            self._pages.append(_OpenPage(page.number + (page.saved is not None), page.end))
            self._unsaved = 0

    def after(self, offset: int, until: int | None = None) -> list[Piece]:
        """The pieces between two offsets that are neither on record nor void."""
        return [
            each.whole()
            for page in self._pages
            if page.end > offset
            for each in page.pieces
            if each.end > offset and (until is None or each.start < until)
        ]

    def end(self) -> None:
        """The turn has ended, and so all of its pieces are on record or void; those of a body that does not stop are not kept."""
        for page in list(self._pages):
            page.pieces = []
            self._remove(page)
        self._is_over = True
        if not self._is_working and self._has_work:
            if self._timer is not None:
                self._timer.cancel()
            self._begin()  # at once: the runtime may close now

    # Writing, in tasks of the runtime: one at a time.

    def _write_in(self, seconds: float) -> None:
        if self._is_working:
            return
        if self._timer is not None:
            if seconds or self._pause:
                return
            self._timer.cancel()
        self._timer = self._host.clock.call_later(max(seconds, self._pause), self._begin)

    def _begin(self) -> None:
        self._timer = None
        if not self._host.closing:
            self._is_working = True
            self._host.spawn(self._work())

    @property
    def _has_work(self) -> bool:
        return bool(self._unsaved or self._gone or self._must_sweep)

    async def _work(self) -> None:
        try:
            await self._write_and_remove()
            while self._is_over and self._has_work:
                await self._write_and_remove()
            self._pause = 0.0
        except ClicketError:  # the store is away: what comes meanwhile is written together
            self._pause = min(self._pause * 2 or WRITE_EVERY, _MAX_PAUSE)
        finally:
            self._is_working = False
        if self._has_work:
            self._write_in(0.0 if self._unsaved >= PAGE else WRITE_EVERY)

    async def _write_and_remove(self) -> None:
        records = self._host.records
        await self._write(records)
        while self._gone:
            await records.delete_document(PIECES, self._gone[0])
            self._gone.popleft()
        if self._must_sweep:
            await delete_pages(records, self._thread, but=self._prefix)
            self._must_sweep = False

    async def _write(self, records: Records) -> None:
        if not self._unsaved:
            return
        self._leave_out_secrets()
        changed = [page for page in self._pages if page.pieces and page.saved != page.end]
        last = self._pages[-1]
        if last.size >= PAGE:
            self._pages.append(_OpenPage(last.number + 1, last.end))
        unsaved, self._unsaved = self._unsaved, 0
        for page in changed:
            before, page.saved = page.saved, page.end
            body = _encode(_Page(page.begin, page.end, [each.whole() for each in page.pieces]))
            try:
                await records.put_document(PIECES, _page_key(self._prefix, page.number), body, None)
            except ClicketError:
                page.saved = -1 if before is None else before
                self._unsaved += unsaved
                raise

    def _leave_out_secrets(self) -> None:
        """An answer that seems to have a secret is not kept: readers get its message, in which it is masked."""
        texts: dict[Stream, str] = {}
        for page in self._pages:
            for each in page.pieces:
                texts[each.stream] = text = texts.get(each.stream, "")[-_OVERLAP:] + each.whole().text
                if has_marker(text) and holds_secret(text):
                    self._secret.add(each.stream)
        for page in list(self._pages):
            if any(each.stream in self._secret for each in page.pieces):
                page.pieces = [each for each in page.pieces if each.stream not in self._secret]
                page.saved = None if page.saved is None else -1  # it is written again, or removed
                if not page.pieces:
                    self._remove(page)


def closes(entry: Entry, stream: Stream) -> bool:
    """Does the entry have the answer of this stream, or make its pieces void?"""
    match entry:
        case Reply():
            return entry.branch == stream[0] and stream[1] <= entry.step
        case Restart():
            return entry.branch == stream[0]
        case Tried():
            return entry.pieces and entry.branch == stream[0]
        case Ended():
            return True
    return False


def piece_id(turn: int, entry: int, end: int) -> str:
    """The id of the event of a piece that ends at this offset: it comes before the events of the entry."""
    return f"{turn}-{entry}.0.{end}"


async def pages_of(records: Records, key: str, turn: int, log: str, after: int) -> list[Piece]:
    """The stored pieces of a log after an offset, without a gap."""
    prefix = _prefix(key, turn, log)
    found: list[Piece] = []
    last, number, end = prefix, -1, 0
    while True:
        documents = await records.documents(PIECES, after=last, limit=_READ)
        mine = [document for document in documents if document.key.startswith(prefix)]
        for document in mine:
            try:
                page = _decoder.decode(document.body)
            except msgspec.MsgspecError:  # another program wrote it
                return found
            place = int(document.key.removeprefix(prefix))
            if place == number + 1 and number >= 0 and page.begin != end:  # the one before has grown since it was read
                return found
            number, end = place, page.end
            found += (piece for piece in page.pieces if piece.end > after)
        if len(mine) < _READ:
            return found
        last = mine[-1].key


async def remove_pieces(host: AgentHost, key: str, turn: int) -> None:
    """Remove what a process that died has left of a turn that has ended."""
    with suppress(ClicketError):  # the next turn of the thread does it
        await delete_pages(host.records, f"{key}/{turn:010d}/")


async def delete_pages(records: Records, prefix: str, but: str = "") -> None:
    """Delete the pages whose keys begin with `prefix`, but for those that begin with `but`."""
    after = prefix
    while True:
        documents = await records.documents(PIECES, after=after, limit=_READ)
        mine = [document.key for document in documents if document.key.startswith(prefix)]
        for key in mine:
            after = key
            if not but or not key.startswith(but):
                await records.delete_document(PIECES, key)
        if len(mine) < _READ:
            return


def _prefix(key: str, turn: int, log: str) -> str:
    return f"{key}/{turn:010d}/{log}/"


def _page_key(prefix: str, number: int) -> str:
    return f"{prefix}{number:08d}"
