"""One job in the child: find the tool, bind the arguments, report the start, run it, encode its output.

Async tools get a fresh event loop each time. Every exception becomes a `Failure`, also `sys.exit`: only the end of the
process itself ends the tool process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

from clicket.engine.executors.processes.file_outputs import dump_files
from clicket.engine.executors.processes.target import MAIN, resolve
from clicket.engine.executors.processes.termination import check_process, is_original, is_stopping
from clicket.engine.executors.processes.wire import MAX_FRAME, Failure, Job, Kind
from clicket.engine.executors.retry import transient
from clicket.engine.executors.tracebacks import traceback_of
from clicket.errors import InvalidInput, ResultUnserializable, UsageError
from clicket.model.codec import decode, encode
from clicket.model.output import HoldsFiles, encode_output
from clicket.tools.context import STREAMED, ToolContext
from clicket.tools.options import Options

__all__ = ["Outlet", "describe_failure", "perform"]

_MAX_TEXT = 64 * 1024


class Outlet(Protocol):
    """Where a body's messages go. Only those of the context that is `speaker` are sent."""

    speaker: object

    def send_for(self, speaker: object, kind: Kind, payload: bytes) -> None: ...


def perform(job: Job, connection: Outlet) -> tuple[Kind, bytes]:
    """The kind and payload of the job's answer."""
    sink = _WireSink(connection)
    connection.speaker = sink
    tool: Any = None
    try:
        tool = resolve(job.target)
        bound = tool.bind(decode(job.arguments))
        fields = dict(job.context)
        deps = None
        if job.deps:
            from clicket.engine.executors.processes.child_deps import made_here

            deps = made_here(job.deps, tool.traits.deps)
        sink.start(fields.pop("time_left", None))
        output = _run(tool, bound, ToolContext(sink, **fields, deps=deps))
        check_process()
        if output is STREAMED:
            return Kind.STREAMED, b""
        try:
            return Kind.OUTPUT, _fitting(encode_output(output))
        except HoldsFiles:
            return Kind.FILES, _fitting(dump_files(output))
    except ResultUnserializable as error:
        return _failed(_describe(error, "result_unserializable"))
    except InvalidInput as error:  # of the binding, or of the body: the tool works, and refuses what it was given
        check_process(error)
        return _failed(_describe(error, "invalid_input", problems=error.problems))
    except BaseException as error:
        check_process(error)
        return _failed(describe_failure(error, tool))


def _run(tool: Any, bound: Any, ctx: ToolContext) -> Any:
    if not tool.is_async:
        return tool.run(bound, ctx)
    if ctx.deps:  # on the loop on which they were made
        from clicket.engine.executors.processes.child_deps import on_own_loop

        return on_own_loop(tool.run(bound, ctx))
    import asyncio

    return asyncio.run(tool.run(bound, ctx))


def _fitting(text: bytes) -> bytes:
    if len(text) > MAX_FRAME:
        raise ResultUnserializable(
            f"the tool ran, but {len(text):,} bytes at once are over the limit of {MAX_FRAME:,}. "
            "Write them to a file and return the file's name."
        )
    return text


# Failures ------------------------------------------------------------------------------------------------------------


def _failed(failure: Failure) -> tuple[Kind, bytes]:
    return Kind.FAILED, encode(failure)


def describe_failure(error: BaseException, tool: Any = None) -> Failure:
    """Why a body has no output, as a value that can be sent."""
    # Decided in the child, which has the exception: its class and attributes are not sent.
    retryable = transient(error, tool.options if tool is not None else Options())
    asked = getattr(error, "retry_after", None)
    retry_after = float(asked) if isinstance(asked, int | float) and math.isfinite(asked) else None
    return _describe(error, "tool_error", retryable=retryable, retry_after=retry_after)


def _describe(error: BaseException, code: str, **more: Any) -> Failure:
    name, module = type(error).__name__, type(error).__module__
    module = "__main__" if module == MAIN else module
    return Failure(code=code, type=name, module=module, message=_message(error), traceback=traceback_of(error), **more)


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # a broken __str__ of the tool's own
        text = ""
    if isinstance(error, SystemExit):
        text = f"the tool called sys.exit({error.code!r}); return or raise instead."
    elif isinstance(error, MemoryError) and not text:
        text = "the tool ran out of memory."
    return _clean(text) or f"the tool raised {type(error).__name__} without a message"


def _clean(text: str) -> str:
    if len(text) > _MAX_TEXT:
        text = f"{text[: _MAX_TEXT // 2]}\n...\n{text[-_MAX_TEXT // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _no_way_to_the_store() -> UsageError:
    return UsageError(
        "a tool in a process of its own cannot keep or read artifacts and checkpoints: it has no connection to the store. "
        "Return the data, or declare the tool with isolation='thread'."
    )


class _WireSink:
    """The context of one job. It writes straight to the socket: a tool that is faster than the journal waits there."""

    __slots__ = ("_connection", "_deadline")

    def __init__(self, connection: Outlet) -> None:
        self._connection = connection
        self._deadline: float | None = None

    def start(self, time_left: float | None) -> None:
        """Report that the preparation is over: the body's time begins now."""
        self._deadline = None if time_left is None else time.monotonic() + time_left
        self._send(Kind.STARTED)

    def emit(self, chunk: Any) -> None:
        self._send(Kind.EMIT, _fitting(encode_output(chunk)))

    def progress(self, step: float, total: float | None, text: str) -> None:
        self._send(Kind.PROGRESS, encode_output({"step": step, "total": total, "text": text}))

    def heartbeat(self) -> None:
        self._send(Kind.HEARTBEAT)

    def note(self, text: str, data: Mapping[str, Any]) -> None:
        self._send(Kind.NOTE, encode_output({"text": text, "data": dict(data)}))

    async def drain(self) -> None:
        """No effect: output is written as it is emitted."""

    async def put_artifact(self, data: bytes | Sequence[bytes]) -> NoReturn:
        raise _no_way_to_the_store()

    async def artifact(self, name: str, start: int, end: int | None) -> NoReturn:
        raise _no_way_to_the_store()

    async def checkpoint(self, key: str, data: bytes) -> NoReturn:
        raise _no_way_to_the_store()

    async def checkpoints(self) -> NoReturn:
        raise _no_way_to_the_store()

    def pending(self, token_for: str) -> NoReturn:
        raise UsageError(
            "a tool in a process of its own cannot leave its call open: it has no connection to the store. Declare the tool with "
            "isolation='thread', or write it as an async function."
        )

    async def renew_credential(self, provider: str, used: str, refused: bool) -> NoReturn:
        raise UsageError(
            "a tool in a process of its own cannot renew a credential: it has no connection to the store. Write it as an async function."
        )

    @property
    def cancelled(self) -> bool:
        return is_stopping()

    @property
    def time_left(self) -> float | None:
        return None if self._deadline is None else self._deadline - time.monotonic()

    def _send(self, kind: Kind, payload: bytes = b"") -> None:
        if not is_original():
            raise UsageError(
                "a ToolContext cannot be used in a process that the tool forked; report to the tool instead."
            )
        self._connection.send_for(self, kind, payload)
