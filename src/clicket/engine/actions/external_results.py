"""Results from outside: a program that has the token of a call completes it, fails it or streams into it, from any process over the store.

A result is an event of the call. The process that owns the call applies it (`external.py`). Of several results the first is recorded,
and the others get a `Conflict`; so does a result for a call that was cancelled or timed out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from msgspec import to_builtins

from clicket.engine.call.foreign import token_closed
from clicket.engine.core import Core
from clicket.engine.executors import progress_data
from clicket.engine.journal import Fenced
from clicket.errors import ClicketError, Conflict, NotFound, ResultUnserializable, UsageError
from clicket.model import Event, EventType, ToolError
from clicket.model.codec import clean, encode
from clicket.model.names import FRONTEND
from clicket.model.output import plain_output
from clicket.model.ports import Stored
from clicket.safety.vault import Secrets, hide, hide_error, hide_text
from clicket.tools.pending import fits, id_in

__all__ = ["ExternalResults"]

_MAX_OUTPUTS = 1_000
_MAX_OUTPUT_BYTES = 1024 * 1024
_MAX_ERROR = 4_000
_REPORT_EVERY = 1.0
"""Seconds between two recorded heartbeats, or two of progress; those in between are not recorded."""
_MANY_REPORTS, _REPORT_SELDOM = 1_000, 10.0
_Build = Callable[[Stored, Secrets | None], dict[str, Any] | None]


class ExternalResults:
    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._clock = core.clock
        self._live = core.live
        self._signals = core.signals
        self._arguments = core.arguments
        self._audit = core.audit
        self._claimer = core.claimer
        self._max_size = core.limits.max_arguments_size

    async def check(self, token: str) -> None:
        """Raise the error that a result with this token would get now, if any."""
        self._refuse_ended(await self._find(token), token)

    async def complete(self, token: str, output: Any) -> str:
        """Record the output; returns the id of the call. None after streamed output: what was streamed is the output."""
        plain = self._plain(output)
        return await self._write_as(token, "reported", lambda _, secrets: {"output": hide(plain, secrets)})

    async def complete_own(self, id: str, thread: str, caller: str, output: Any, *, error: str = "") -> str:
        """Record the output of a tool that the caller's own program runs, without a token: only the caller's own call, and only a call
        of such a tool. `error`: it failed, and why."""
        plain = self._plain(output)
        failure = ToolError(code="tool_error", message=clean(error)[:_MAX_ERROR], type="FrontendError")

        def build(_: Stored, secrets: Secrets | None) -> dict[str, Any]:
            return {"error": to_builtins(hide_error(failure, secrets))} if error else {"output": hide(plain, secrets)}

        return await self._write(await self._find_own(id, thread, caller), None, "reported", build)

    async def fail(self, token: str, message: str, *, type: str) -> str:
        """Record that the work failed; returns the id of the call."""
        for field, text in (("the error", message), ("its type", type)):
            if not isinstance(text, str) or not text:
                raise UsageError(f"{field} must be a text that is not empty, not {text!r}.")
        error = ToolError(code="tool_error", message=clean(message)[:_MAX_ERROR], type=clean(type)[:200])
        return await self._write_as(
            token, "reported", lambda _, secrets: {"error": to_builtins(hide_error(error, secrets))}
        )

    async def emit(self, token: str, chunk: Any) -> str:
        """Record a piece of output; returns the id of the call."""
        plain = self._plain(chunk)

        def build(stored: Stored, secrets: Secrets | None) -> dict[str, Any]:
            shown = hide(plain, secrets)
            before = [e.data["content"] for e in _of_attempt(stored, "output")]
            size = sum(map(_size, before))
            if len(before) >= _MAX_OUTPUTS or size + _size(shown) > _MAX_OUTPUT_BYTES:
                raise UsageError(
                    f"call {stored.id!r} takes at most {_MAX_OUTPUTS:,} pieces of output and {_MAX_OUTPUT_BYTES:,} bytes in all from "
                    "outside. Store more with put_artifact, and give its name as the output."
                )
            return {"content": shown, "offset": size}

        return await self._write_as(token, "output", build)

    async def heartbeat(self, token: str) -> str:
        """Say that the work goes on; returns the id of the call."""
        return await self._write_as(token, "heartbeat", lambda stored, _: self._seldom(stored, "heartbeat", {}))

    async def progress(self, token: str, step: float, total: float | None, text: str) -> str:
        """Record progress; returns the id of the call."""
        numbers = (step,) if total is None else (step, total)
        if any(isinstance(n, bool) or not isinstance(n, int | float) or not abs(n) < float("inf") for n in numbers):
            raise UsageError("progress takes finite numbers as step and total.")

        def build(stored: Stored, secrets: Secrets | None) -> dict[str, Any] | None:
            started = next(iter(_of_attempt(stored, "attempt_started")), stored.events[0])
            ago = max(self._clock.now() - started.at, 0.0)
            data = progress_data(step, total, hide_text(clean(text), secrets), ago)
            return self._seldom(stored, "progress", data)

        return await self._write_as(token, "progress", build)

    def _seldom(self, stored: Stored, kind: str, data: dict[str, Any]) -> dict[str, Any] | None:
        """None if such a report was recorded a moment ago."""
        before = _of_attempt(stored, kind)
        every = _REPORT_EVERY if len(before) < _MANY_REPORTS else _REPORT_SELDOM
        return None if before and 0 <= self._clock.now() - before[-1].at < every else data

    # Writing.

    async def _write_as(self, token: str, kind: EventType, build: _Build) -> str:
        return await self._write(await self._find(token), token, kind, build)

    async def _write(self, found: Stored, token: str | None, kind: EventType, build: _Build) -> str:
        stored: Stored | None = found
        while stored is not None:
            self._refuse_ended(stored, token)
            first = stored.events[0].data
            call = self._live.find(stored.id, first["thread"], first.get("caller", ""))
            data = build(stored, self._arguments.secrets_of(stored.id, stored.events, call))
            if data is None:
                return stored.id
            newer = await self._signals.append(stored, kind, plain_output(data)[0])
            if newer is None:
                await self._on_written(stored, kind, data)
                return stored.id
            stored = newer if newer.events else None
        raise _no_such_call()

    async def _on_written(self, stored: Stored, kind: EventType, data: dict[str, Any]) -> None:
        first = stored.events[0].data
        thread = first["thread"]
        caller = first.get("caller", "")
        if kind == "reported":
            issued = _issued(stored.events)[-1]
            await self._audit.kept(
                str(issued.get("for", "")),
                "call.reported",
                call=stored.id,
                tool=first["tool"],
                thread=thread,
                caller=caller,
                ok="error" not in data,
            )
        call = self._live.find(stored.id, thread, caller)
        if call is None:
            self._claimer.nudge()  # it may have no owner
            return
        with suppress(Fenced):
            await self._signals.append_empty(call.entry)

    async def _find(self, token: str) -> Stored:
        """The call of a token. A token that was never issued and one with a wrong secret get the same answer."""
        id = id_in(token)
        for stored in () if id is None else await self._store.load(id):
            if stored.damaged is None and any(fits(token, str(issued["hash"])) for issued in _issued(stored.events)):
                return stored
        raise _no_such_call()

    async def _find_own(self, id: str, thread: str, caller: str) -> Stored:
        for stored in await self._store.load(id, thread, caller):
            if stored.damaged is None and stored.events[0].data["tool"] == FRONTEND and _issued(stored.events):
                return stored
        raise NotFound(f"no call {id!r} of thread {thread!r} waits for a result of the caller's own program.")

    def _refuse_ended(self, stored: Stored, token: str | None) -> None:
        events, id = stored.events, stored.id
        state = events[-1].state
        if any(event.type == "reported" for event in events):
            raise Conflict(f"call {id!r} has its result already: a token works once. Nothing was changed.")
        if state.is_terminal:
            raise Conflict(
                f"call {id!r} has ended as {state}, so its token does not work any more. Nothing was changed."
            )
        if any(event.type == "cancel_requested" for event in events):
            raise Conflict(f"call {id!r} was cancelled, so its token does not work any more. Nothing was changed.")
        closed = token_closed(events)
        if closed is not None:
            why = "has ended its attempt" if closed == "ended" else "has run out of time"
            raise Conflict(f"call {id!r} {why}, so its token does not work any more. Nothing was changed.")
        attempts = sum(event.type == "attempt_started" for event in events)
        issued = _issued(events)[-1]
        if token is not None and (issued.get("attempt") != attempts or not fits(token, str(issued["hash"]))):
            raise Conflict(f"call {id!r} is in another attempt, which has its own token. Nothing was changed.")

    def _plain(self, output: Any) -> Any:
        try:
            plain, text = plain_output(output)
        except ResultUnserializable as error:
            raise UsageError(f"the output cannot be recorded: {error.message}") from None
        if len(text) > self._max_size:
            raise UsageError(
                f"the output has {len(text):,} bytes as JSON, and a result from outside takes {self._max_size:,} "
                "(max_arguments_size). Store it with put_artifact, and give its name as the output."
            )
        return plain


def _issued(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The tokens of a call, as far as the store has them."""
    return [event.data["external"] for event in events if event.type == "note" and "external" in event.data]


def _of_attempt(stored: Stored, kind: str) -> list[Event]:
    """The events of one kind since the last attempt began."""
    found: list[Event] = []
    for event in reversed(stored.events):
        if event.type == kind:
            found.append(event)
        if event.type == "attempt_started":
            break
    return found[::-1]


def _size(chunk: Any) -> int:
    return len(chunk.encode()) if type(chunk) is str else len(encode(chunk)) + 1


def _no_such_call() -> ClicketError:
    return NotFound("no call waits with this token. Check that it was copied whole.")
