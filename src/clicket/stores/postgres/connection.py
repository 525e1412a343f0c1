"""One connection, on the loop: libpq speaks the protocol, the loop waits for its socket, nothing blocks.

libpq is driven directly, through `psycopg.pq`. A statement that is not answered in time costs the connection at once: no
caller waits for a server that hangs. The server may still run the statement: the caller must expect that.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from psycopg import Error, pq
from psycopg.adapt import Transformer

from clicket.stores.remote import Lost

__all__ = ["Connection", "Hopeless", "Param", "Refused", "Row", "Statement"]

logger = logging.getLogger("clicket.stores.postgres")

Param = str | bytes | int | float | bool | Sequence[int] | Sequence[str] | None
Row = tuple[Any, ...]
Statement = tuple[str, Sequence[Param]]

# The server could not do it now, and did nothing; the same statement may succeed later.
_LATER = {
    "0A000": "the tables were changed",
    "25006": "it takes no writes: it became a replica, or was set read-only",
    "25P03": "it closed a transaction that was idle",
    "26000": "it does not know a statement that it prepared",
    "40001": "it could not put two transactions in an order",
    "40P01": "two transactions waited for each other",
    "53100": "its disk is full; free some space there",
    "53200": "it is out of memory",
    "53300": "it has no connection left; raise its max_connections, or give each store a smaller pool",
    "55P03": "it waited too long for a lock",
    "57014": "it did not finish the statement in time",
    "57P01": "it is shutting down",
    "57P02": "it is recovering from a crash of one of its processes",
    "57P03": "it is starting up or shutting down",
    "57P05": "it closed a connection that was idle",
    "58030": "it cannot read or write its files",
}
_LATER_CLASSES = ("08", "53", "57", "58")  # connections, resources, its operators, its files
_FORGET = ("0A000", "26000")  # the connection's prepared statements are of no use any more
# Retrying does not help against these. Before a connection is made there is no code for them, only text.
_NEVER = (
    "authentication failed",
    "no password supplied",
    "no pg_hba.conf entry",
    "does not exist",
    "permission denied",
    "not permitted to log in",
    "does not support SSL",
    "certificate",
)
_MOST_PREPARED = 200


class Hopeless(Lost):
    """The server refused the connection for good, or no server has this name."""

    hopeless = True


class _Forget(Lost):
    """A new connection will do."""


class Refused(Exception):
    """The server answered with an error, and the statement had no effect."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """One statement at a time, or two that follow each other. `on_notification` gets the channel and the text of each notification."""

    def __init__(self, pgconn: pq.abc.PGconn) -> None:
        self.on_notification: Callable[[str, str], None] | None = None
        self.left: Callable[[], None] | None = None
        self.broken: Lost | None = None
        self.silent = False
        """Did it break because no answer came?"""
        self._pg = pgconn
        self._fd = pgconn.socket
        self._loop = asyncio.get_running_loop()
        self._asked: deque[tuple[asyncio.Future[pq.abc.PGresult] | None, asyncio.TimerHandle | None]] = deque()
        """Statements under way: in a pipeline several, else one. None: the answer interests no caller."""
        self._results: list[pq.abc.PGresult] = []
        self._in_pipeline = False
        self._free: Callable[[], None] | None = None
        self._prepared: dict[str, bytes] = {}
        self._names = 0
        """Names of prepared statements that were sent; more than are known if a caller was cancelled before the answer."""
        self._loader = Transformer()
        pgconn.nonblocking = 1
        self._loop.add_reader(self._fd, self._readable)

    @classmethod
    async def open(cls, attempts: Sequence[bytes], limit: float) -> Connection:
        """The first address that accepts us. Raises `Lost`, or `Hopeless` when a server refused for good."""
        trouble = Lost("there is no address to try")
        for conninfo in attempts:
            pgconn = pq.PGconn.connect_start(conninfo)
            try:
                async with asyncio.timeout(limit / len(attempts)):
                    await _connected(pgconn)
                return cls(pgconn)
            except TimeoutError:
                trouble = Lost(f"no answer within {limit:g} s")
            except Lost as lost:
                trouble = lost
            except BaseException:
                pgconn.finish()
                raise
            pgconn.finish()
        raise trouble

    @property
    def busy(self) -> bool:
        return bool(self._asked)

    async def run(
        self, sql: str, params: Sequence[Param] = (), *, limit: float, then: Statement | None = None
    ) -> list[Row]:
        """One statement, prepared once. Raises `Lost` or `Refused`. Cancelling it leaves the connection busy.

        `then`: a statement that the server runs right after it, in a transaction of its own, without waiting for us. It is also run if
        the first one is refused, and its answer is dropped."""
        name = self._prepared.get(sql) or await self._prepare(sql, limit)
        after = (self._prepared.get(then[0]) or await self._prepare(then[0], limit)) if then is not None else b""
        if then is not None and not self._in_pipeline and not self._asked and self.broken is None:
            self._pg.enter_pipeline_mode()
            self._in_pipeline = True
        answer = self._ask(limit, self._pg.send_query_prepared, name, *_bound(params), pq.Format.BINARY)
        if then is not None and self.broken is None:
            self._send(None, None, self._pg.send_query_prepared, after, *_bound(then[1]), pq.Format.BINARY)
        result = await answer  # cancelling the caller cancels this future, not the statement
        self._loader.set_pgresult(result)
        return self._loader.load_rows(0, result.ntuples, tuple)

    async def _prepare(self, sql: str, limit: float) -> bytes:
        self._names += 1
        name = f"s{self._names}".encode()
        await self._ask(limit, self._pg.send_prepare, name, sql.encode())
        self._prepared[sql] = name
        return name

    async def script(self, sql: str, *, limit: float) -> None:
        """Several statements without parameters, in one transaction unless they say otherwise."""
        await self._ask(limit, self._pg.send_query, sql.encode())

    @property
    def worn(self) -> bool:
        """Has it prepared more statements than a server should remember for one connection?"""
        return self._names > _MOST_PREPARED

    def when_free(self, call: Callable[[], None]) -> None:
        """Call back when the statement under way has ended, however it ended."""
        self._free = call

    def close(self, why: str = "the connection was closed") -> None:
        """At once: a statement under way is left to the server."""
        self._break(Lost(why))

    def _ask(self, limit: float, send: Callable[..., None], *args: Any) -> asyncio.Future[pq.abc.PGresult]:
        if self.broken is not None:
            raise Lost(str(self.broken))
        assert self._in_pipeline or not self._asked, "one statement at a time"
        answer: asyncio.Future[pq.abc.PGresult] = self._loop.create_future()
        self._send(answer, self._loop.call_later(limit, self._overdue, limit), send, *args)
        return answer

    def _send(
        self,
        answer: asyncio.Future[pq.abc.PGresult] | None,
        timer: asyncio.TimerHandle | None,
        send: Callable[..., None],
        *args: Any,
    ) -> None:
        self._asked.append((answer, timer))
        try:
            send(*args)
            if self._in_pipeline:
                self._pg.pipeline_sync()
            if self._pg.flush():
                self._loop.add_writer(self._fd, self._writable)
        except Error as error:
            self._break(Lost(_words(error)))

    def _writable(self) -> None:
        try:
            if not self._pg.flush():
                self._loop.remove_writer(self._fd)
        except Error as error:
            self._break(Lost(_words(error)))

    def _readable(self) -> None:
        pg = self._pg
        try:
            pg.consume_input()
            while (note := pg.notifies()) is not None:
                if self.on_notification is not None:
                    self.on_notification(note.relname.decode(errors="replace"), note.extra.decode(errors="replace"))
            ended = False
            while self._asked and not pg.is_busy():
                result = pg.get_result()
                if result is None:
                    if not self._in_pipeline:
                        self._answered()
                        return
                    if ended:  # nothing more has arrived
                        return
                    ended = True
                elif self._in_pipeline and result.status == pq.ExecStatus.PIPELINE_SYNC:
                    self._answered()
                    ended = False
                else:
                    self._results.append(result)
                    ended = False
        except Error as error:
            # Keep the server's last message before the connection closes, if there is one.
            self._break(
                next((e for r in self._results if isinstance(e := _error(r), Lost)), None) or Lost(_words(error))
            )

    def _answered(self) -> None:
        answer, timer = self._asked.popleft()
        results, self._results = self._results, []
        error = next((e for e in map(_error, results) if e is not None), None)
        if timer is not None:
            timer.cancel()
        if self._pg.status != pq.ConnStatus.OK or isinstance(error, _Forget):
            self._break(error if isinstance(error, Lost) else Lost("the connection broke off"))
        if answer is None:
            if error is not None:
                logger.info("a statement that followed another had no effect: %s", error)
        elif not answer.done():
            if error is not None:
                answer.set_exception(error)
            elif results:
                answer.set_result(results[-1])
            else:
                answer.set_exception(self.broken or Lost("the connection broke off"))
        if not self._asked:
            self._now_free()

    def _now_free(self) -> None:
        if self._free is not None:
            call, self._free = self._free, None
            call()

    def _overdue(self, limit: float) -> None:
        self.silent = True
        self._break(Lost(f"no answer within {limit:g} s"))

    def _break(self, why: Lost) -> None:
        if self.broken is not None:
            return
        self.broken = why
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._pg.finish()
        asked, self._asked = self._asked, deque()
        for answer, timer in asked:
            if timer is not None:
                timer.cancel()
            if answer is not None and not answer.done():
                answer.set_exception(why)
        self._now_free()
        if self.left is not None:
            self.left()


async def _connected(pgconn: pq.abc.PGconn) -> None:
    loop = asyncio.get_running_loop()
    while True:
        if pgconn.status == pq.ConnStatus.BAD:
            raise _no_entry(pgconn)
        state = pgconn.connect_poll()
        if state == pq.PollingStatus.OK:
            return
        if state == pq.PollingStatus.FAILED:
            raise _no_entry(pgconn)
        ready: asyncio.Future[None] = loop.create_future()
        fd = pgconn.socket
        reading = state == pq.PollingStatus.READING
        (loop.add_reader if reading else loop.add_writer)(fd, _set, ready)
        try:
            await ready
        finally:
            (loop.remove_reader if reading else loop.remove_writer)(fd)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _no_entry(pgconn: pq.abc.PGconn) -> Lost:
    text = " ".join(pgconn.get_error_message().split())
    if "too many clients" in text or "connection slots" in text:
        return Lost(f"{_LATER['53300']} ({text})")
    return Hopeless(text) if any(part in text for part in _NEVER) else Lost(text.rstrip("."))


def _error(result: pq.abc.PGresult) -> Exception | None:
    if result.status in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK, pq.ExecStatus.EMPTY_QUERY):
        return None
    code = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message).decode(errors="replace")
    message = " ".join(message.split())
    if code in _LATER:
        return _Forget(_LATER[code]) if code in _FORGET else Lost(f"{_LATER[code]} ({message})")
    if not code or code.startswith(_LATER_CLASSES):
        return Lost(message or "the connection broke off")
    return Refused(code, message)


def _words(error: Error) -> str:
    return " ".join(str(error).split()).rstrip(".") or "the connection broke off"


def _bound(params: Sequence[Param]) -> tuple[list[bytes | None], list[int]]:
    return [_encoded(param) for param in params], [int(type(param) is bytes) for param in params]


def _encoded(param: Param) -> bytes | None:
    """As the server reads it; only bytes go as they are, everything else as text."""
    if param is None or type(param) is bytes:
        return param
    if type(param) is str:
        return param.encode()
    if type(param) is bool:
        return b"t" if param else b"f"
    if isinstance(param, int | float):
        return repr(param).encode()
    return ("{" + ",".join(_element(each) for each in param) + "}").encode()


def _element(value: int | str) -> str:
    if type(value) is int:
        return str(value)
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
