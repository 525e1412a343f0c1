"""Another clicket server as a source of tools: its tools are registered here, and a call here is one call there.

The call there has the idempotency key of the call here as its id. So an attempt that lost its connection, or a process that takes the call
over after a crash, finds the same call again, and the tool there runs once. Its output, progress and outcome are those of the call here; a
cancel is passed on. If the outcome there is unknown, or the server cannot be reached any more, the outcome here is unknown.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping
from contextlib import aclosing, suppress
from typing import Any

from clicket.client.client import Client
from clicket.client.connection import ServerUnavailable
from clicket.client.handle import CallHandle
from clicket.errors import (
    ApprovalDenied,
    ClicketError,
    InvalidInput,
    PermissionDenied,
    RetryableError,
    ToolUnavailable,
    UsageError,
)
from clicket.kernel import State
from clicket.model import Event, ToolResult
from clicket.model.files import File, WithFiles
from clicket.runtime.runtime import Runtime
from clicket.runtime.views.tools import ToolInfo
from clicket.tools import ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options, make_options
from clicket.tools.response import OutcomeUnknown

__all__ = ["RemoteTool", "RemoteToolError", "RemoteTools"]

_CANCEL_TIMEOUT = 5.0
_RETRIES = 5
_NOT_ITS_FAULT: Mapping[str, type[ClicketError]] = {
    "permission_denied": PermissionDenied,
    "approval_denied": ApprovalDenied,
    "tool_unavailable": ToolUnavailable,
    "tool_not_found": ToolUnavailable,
}


class RemoteToolError(ClicketError):
    """The call failed on the server. `details["remote_code"]` is the code of its error there."""

    code = "tool_error"


class RemoteTools:
    """`RemoteTools("https://tools.example", key)`; `await source.join(runtime)` registers the tools, `await source.tools()` returns them.

    `prefix` is put before their names. `only`: names of the server's tools; None: all. `options` are those of `@tool`, for each tool; the
    timeouts of the tools are the server's own, unless one is given here.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        prefix: str = "",
        only: Collection[str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if isinstance(only, str):
            raise UsageError("only takes a list of names, not one string.")
        self.url = url
        self._key = key
        self._prefix = prefix
        self._only = None if only is None else frozenset(only)
        self._options = dict(options or {})
        self._clients: dict[asyncio.AbstractEventLoop, Client] = {}  # a client cannot outlive the loop of its sockets
        Client(url, key="")  # refuses what is not a URL

    def __repr__(self) -> str:
        return f"RemoteTools({self.url!r})"

    async def tools(self) -> list[RemoteTool]:
        """The tools that the server offers now to this key."""
        offered = [each for each in await self.client().tools() if self._only is None or each.name in self._only]
        missing = (self._only or frozenset()) - {each.name for each in offered}
        if missing:
            raise UsageError(f"{self.url} does not offer {', '.join(sorted(missing))}.")
        return [RemoteTool(self, each, prefix=self._prefix, options=self._options) for each in offered]

    async def join(self, runtime: Runtime) -> list[RemoteTool]:
        """Register the tools with a runtime."""
        found = await self.tools()
        for each in found:
            runtime.add(each)
        return found

    def client(self) -> Client:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            for other in [known for known in self._clients if known.is_closed()]:
                del self._clients[other]
            self._clients[loop] = Client(self.url, key=self._key)
        return self._clients[loop]

    async def close(self) -> None:
        """Close the connections of the running loop. Calls go on in the server."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()


class RemoteTool(ToolDefaults):
    """A tool of another server. It may be repeated: the server knows the call by its id, and runs it once."""

    is_async = True

    def __init__(self, source: RemoteTools, info: ToolInfo, *, prefix: str, options: Mapping[str, Any]) -> None:
        self._source = source
        self.remote_name = info.name
        self.name = re.sub(r"[^A-Za-z0-9_.\-]", "_", f"{prefix}{info.name}")[:128]
        self.description = info.description
        self.input_schema: Mapping[str, Any] = info.input_schema
        own = {
            "timeout": None,
            "max_retries": _RETRIES,
            "version": info.version,
            "read_only": info.read_only,
            "idempotent": True,
        }
        tags = {*info.tags, "remote", *options.get("tags", ())}
        self.options: Options = make_options(f"tool {self.name!r}", {**own, **options, "tags": tags})

    def __repr__(self) -> str:
        return f"<tool {self.name} of {self._source.url}>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> Any:
        client = self._source.client()
        handle: CallHandle | None = None
        try:
            handle = await client.submit(
                self.remote_name,
                bound,
                id=ctx.idempotency_key,
                thread=ctx.thread,
                metadata={"remote_call": ctx.call_id},
            )
            async with aclosing(handle.events()) as events:  # type: ignore[type-var]  # it is an async generator
                async for event in events:
                    _report(event, ctx)
            result = await handle.result()
            files = [
                File(await client.artifact(ref.artifact), ref.media_type, name=ref.name or None) for ref in result.files
            ]
        except ServerUnavailable as error:
            raise self._lost(error, ctx) from error
        except asyncio.CancelledError:
            if getattr(ctx.sink, "stop_reason", None) != "shutdown":  # else the next process continues the call
                await self._cancel(client, ctx)
            raise
        output = self._output(result, ctx)
        return WithFiles(output, files, result.content) if files else output

    async def close(self) -> None:
        await self._source.close()

    async def _cancel(self, client: Client, ctx: ToolContext) -> None:
        with suppress(ClicketError, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await client.cancel(
                    ctx.idempotency_key, thread=ctx.thread, reason="it was cancelled where it came from"
                )

    def _lost(self, error: ServerUnavailable, ctx: ToolContext) -> ClicketError:
        """The call may go on there. While there are attempts left, the next one finds it again."""
        if ctx.attempt <= self.options.max_retries:
            return RetryableError(f"{self._source.url} could not be reached: {error.message}")
        return OutcomeUnknown(
            f"{self._source.url} could not be reached any more ({error.message}). The call may have been done there under the id "
            f"{ctx.idempotency_key!r}: look before you call again."
        )

    def _output(self, result: ToolResult, ctx: ToolContext) -> Any:
        if result.state is State.COMPLETED:
            return result.output
        error = result.error
        code = str(result.state) if error is None else error.code
        said = f"{self._source.url}: {self.remote_name}: {code if error is None else error.message}"
        if code == "outcome_unknown":
            raise OutcomeUnknown(f"{said} (its id there: {ctx.idempotency_key!r})")
        if code == "invalid_input":
            raise InvalidInput(error.details.get("problems") or said if error is not None else said)
        if code in _NOT_ITS_FAULT:
            raise _NOT_ITS_FAULT[code](said)
        raise RemoteToolError(said, remote_code=code, remote_state=str(result.state))


def _report(event: Event, ctx: ToolContext) -> None:
    """Pass an event of the call there on to the call here."""
    data = event.data
    if event.type == "output":
        ctx.emit(data["content"])
    elif event.type == "progress":
        ctx.progress(data.get("step") or 0, data.get("total_steps"), str(data.get("status") or ""))
    elif event.type == "approval_requested":
        ctx.note("It waits there until a person approves it.", remote_waiting_for="approval")
    else:
        ctx.heartbeat()
