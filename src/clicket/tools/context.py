"""What a running tool knows of its call and can report about itself. Every method may be called from any thread."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, Iterable, Mapping
from math import isfinite
from typing import IO, Any, Protocol

from clicket.errors import UsageError
from clicket.tools.costs import cost_note
from clicket.tools.deps import NO_DEPS
from clicket.tools.pending import Pending

__all__ = ["STREAMED", "Sink", "Streamed", "ToolContext"]

_Source = bytes | os.PathLike[str] | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]
"""What an artifact is made of."""


class Sink(Protocol):
    """Receives what a running tool reports. The execution layer implements it for the loop, for threads and for child processes."""

    def emit(self, chunk: Any) -> None: ...
    def progress(self, step: float, total: float | None, text: str) -> None: ...
    def heartbeat(self) -> None: ...
    def note(self, text: str, data: Mapping[str, Any]) -> None: ...
    async def drain(self) -> None: ...
    async def put_artifact(self, data: Any) -> str: ...
    async def artifact(self, name: str, start: int, end: int | None) -> bytes: ...
    async def checkpoint(self, key: str, data: bytes) -> None: ...
    async def checkpoints(self) -> dict[str, bytes]: ...
    def pending(self, token_for: str) -> str: ...
    async def renew_credential(self, provider: str, used: str, refused: bool) -> str: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def time_left(self) -> float | None: ...


class ToolContext:
    """Passed to a tool that has a parameter annotated `ToolContext`. The parameter is not part of the tool's schema."""

    __slots__ = (
        "_costs",
        "_credentials",
        "_sink",
        "attempt",
        "call_id",
        "caller",
        "deps",
        "idempotency_key",
        "metadata",
        "thread",
        "tool",
    )

    def __init__(
        self,
        sink: Sink,
        *,
        call_id: str,
        tool: str,
        thread: str,
        attempt: int,
        idempotency_key: str,
        metadata: Mapping[str, Any],
        caller: str = "",
        credentials: Mapping[str, str] | None = None,
        deps: Mapping[str, Any] | None = None,
    ) -> None:
        self._sink: Sink = sink
        self._credentials: Mapping[str, str] | None = credentials
        self._costs: int = 0
        self.call_id: str = call_id
        self.tool: str = tool
        self.thread: str = thread
        self.attempt: int = attempt
        self.idempotency_key: str = idempotency_key
        """The same in every attempt of this call, also after a restart. Pass it to the service that performs the effect."""
        self.metadata: Mapping[str, Any] = metadata
        self.caller: str = caller
        """The caller: the id of an API key, or empty for the program itself."""
        self.deps: Mapping[str, Any] = NO_DEPS if deps is None else deps
        """Values of this process: `ctx.deps["db"]` is what the agent's run brought (`deps=`), or what the runtime made."""

    @property
    def sink(self) -> Sink:
        """Where the context's methods lead to; for clicket's own tools."""
        return self._sink

    def progress(self, step: float, total: float | None = None, text: str = "") -> None:
        """Report progress. Reports that come faster than they can be stored are merged; the last one wins."""
        for value in (step,) if total is None else (step, total):
            if not isinstance(value, int | float) or not isfinite(value):
                raise UsageError(f"ctx.progress takes finite numbers as step and total, not {value!r}.")
        self._sink.progress(_plain(step), None if total is None else _plain(total), text)

    def emit(self, chunk: Any) -> None:
        """Send a piece of output while the work goes on. In a worker thread this waits when the journal lags behind."""
        self._sink.emit(chunk)

    def heartbeat(self) -> None:
        """Say that the tool is alive; it holds off `idle_timeout`."""
        self._sink.heartbeat()

    def note(self, text: str, **data: Any) -> None:
        """Put a remark into the call's journal."""
        self._sink.note(text, data)

    def spend(self, *, usd: float = 0.0, tokens: int = 0, key: str | None = None) -> None:
        """Report what this call has cost, in US dollars or tokens: it counts for its thread, agent and caller, and in their budgets.

        Several reports add up. A report with the same `key` as an earlier one takes its place, in any attempt. Without a key the first
        report of an attempt replaces the first one of the attempt before, the second the second: a call that is tried again is counted
        once. If each attempt costs, say so: `key=f"attempt-{ctx.attempt}"`.
        """
        self._costs += 1
        data = cost_note(usd, tokens, f"#{self._costs}" if key is None else key)
        parts = [f"{usd:g} USD"] if usd else []
        self._sink.note(
            f"It cost {' and '.join([*parts, f'{tokens:,} tokens'] if tokens or not parts else parts)}.", data
        )

    async def drain(self) -> None:
        """Wait until everything emitted so far is in the journal. Async tools that emit much call this now and then."""
        await self._sink.drain()

    async def put_artifact(self, data: _Source) -> str:
        """Keep a file of this call; returns its name. It stays as long as the call is kept, and the call's caller may read it.
        `data`: bytes, a `pathlib.Path`, an open binary file, or an iterable or async iterable of bytes, which is taken in chunks.

        The bytes are kept as they are: nothing in them is hidden. A sync tool in a thread says
        `asyncio.run(ctx.put_artifact(data))`; a tool in a child process has no way to the store.
        """
        return await self._sink.put_artifact(data)

    async def artifact(self, name: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of an artifact, or a range of them, if the call's caller may read it: `NotFound` otherwise."""
        return await self._sink.artifact(name, start, end)

    async def checkpoint(self, key: str, data: bytes) -> None:
        """Keep what need not be done again. It is durable when this returns: the next attempt of this call, also one after a
        crash and in another process, finds it in `checkpoints()`. A later one with the same key takes its place.

        At most 64 MiB each, 1,000 of them and 512 MiB in all; they go with the call. The bytes come back as they are. Where
        they hold a secret they are sealed with the runtime's key (`CLICKET_SECRET_KEY`); without one they are not written, and
        only attempts in this process find them.
        """
        await self._sink.checkpoint(key, data)

    async def checkpoints(self) -> dict[str, bytes]:
        """What this call has kept so far, in any attempt: the last bytes of each key."""
        return await self._sink.checkpoints()

    def pending(self, token_for: str = "") -> Pending:
        """Leave the call open when the body returns this: it waits, without a slot, until `token` of the returned value completes or
        fails it (`rt.complete`, HTTP, CLI). `token_for` says on record for whom the token is. An attempt has one token.

        The tool's `timeout` bounds the wait, and `idle_timeout` the time without output, progress or heartbeat. In an async tool
        without external=True, `await ctx.drain()` before the token leaves the process: it works once that has returned.
        """
        if not isinstance(token_for, str):
            raise UsageError(
                f"ctx.pending takes a text that says for whom the token is, not {type(token_for).__name__}."
            )
        return Pending(self._sink.pending(token_for))

    def credential(self, provider: str) -> str:
        """The caller's token for a provider that the tool declares: `@tool(credentials=["github"])`. Send it to that service, and
        nowhere else. It is masked in everything that the tool returns, reports or raises."""
        token = None if self._credentials is None else self._credentials.get(provider)
        if token is None:
            known = ", ".join(self._credentials or ()) or "none"
            raise UsageError(
                f"the tool declares no credential {provider!r}; it declares {known}. Add it: @tool(credentials=[{provider!r}])."
            )
        return token

    async def renew_credential(self, provider: str, *, refused: bool = True) -> str:
        """Another token, after the service did not take this one: refreshed, or the one that replaced it. Call it once, and only where
        trying again is safe. If there is none, `CredentialMissing` is raised; let it pass, and the call waits for a person and is
        attempted again.

        `refused`: the service said that the token is not valid, so one that cannot be refreshed counts as expired from now on. If it
        did not say so, the same token is returned where there is no other.
        """
        return await self._sink.renew_credential(provider, self.credential(provider), refused)

    @property
    def cancelled(self) -> bool:
        """Has the call been cancelled, or its time run out? Sync tools look here and return early."""
        return self._sink.cancelled

    @property
    def time_left(self) -> float | None:
        """Seconds until this attempt's deadline, or None when it has none."""
        return self._sink.time_left


def _plain(number: float) -> float:
    """A plain Python number: other libraries' numbers cannot be written as JSON."""
    return float(number) if isinstance(number, float) else int(number)


class Streamed:
    """Returned by a body whose output is what it emitted."""

    __slots__ = ()


STREAMED = Streamed()
