"""The tool `code_interpreter`: runs programs of a model in the session of its thread.

A program that fails is not a failure of the tool; a sandbox that does not start is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any
from weakref import WeakKeyDictionary, ref

import msgspec

from clicket.errors import ClicketError, ProgramFailed
from clicket.interpreter.interpreter import Interpreter
from clicket.interpreter.result import Result
from clicket.interpreter.run.result_builder import bytes_of
from clicket.interpreter.tool.fetch import Egress, FetchTool
from clicket.interpreter.tool.message_batcher import MessageBatcher
from clicket.interpreter.tool.options import InterpreterOptions, parse_options
from clicket.interpreter.tool.pool import Pool, PooledInterpreter
from clicket.interpreter.tool.program_tools import ProgramTools
from clicket.interpreter.tool.program_uses import ProgramUses, UseLimits
from clicket.model.codec import as_text
from clicket.model.files import PICTURES, File, Image, WithFiles, type_in
from clicket.tools import (
    Options,
    Registry,
    SessionKey,
    Tool,
    ToolContext,
    Traits,
    make_options,
    nested_calls,
    session_key,
)
from clicket.tools.defaults import ToolDefaults
from clicket.tools.schema import DIALECT

__all__ = ["CodeInterpreter", "code_interpreter"]

_SCHEMA: Mapping[str, Any] = {
    "$schema": DIALECT,
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "minLength": 1,
            "description": "Markdown with fenced Python blocks, which run one after another, or bare Python code.",
        },
        "file_names": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "maxItems": 100,
            "default": [],
            "description": "Files that the code reads: names of files that are there, or artifacts as 'data.csv=sha256-…'.",
        },
    },
    "required": ["task"],
    "additionalProperties": False,
}
_MAX_PICTURES = 8
_MAX_EXCERPT = 1_200
"""Characters of a traceback, and of output, in the message of a failed program."""
_NEW = (
    "The session of this thread is new: it has nothing that earlier calls defined. "
    "Run the code that defines what is missing again."
)


class SandboxBroken(ClicketError):
    """The sandbox failed, so the program was not run."""

    code = "tool_error"

    def __init__(self, cause: ClicketError) -> None:
        super().__init__(cause.message, **cause.details)
        self.type: str = type(cause).__name__


class CodeInterpreter(ToolDefaults):
    """A tool with a session for each caller and thread. Calling it returns a tool with other options."""

    is_async = True

    def __init__(self, setup: InterpreterOptions) -> None:
        self.setup = setup
        self.name: str = setup.name
        self.input_schema = _SCHEMA
        # A timeout is the program's, not the tool's. A program that makes calls holds no slot for which they would wait.
        self.traits: Traits = Traits(
            one_call_per_thread=setup.session == "thread",
            timeout_is_failure=False,
            holds_slot=not setup.uses_tools,
        )
        self._description = setup.description_text(), ""
        self._given = {each.name: each for each in setup.tools if not isinstance(each, str)}
        self._fetch: FetchTool | None = None
        if setup.egress:
            egress = [Egress.parse(each) for each in setup.egress]
            self._fetch = FetchTool(setup.fetch_name, egress, part_of=setup.name)
        self._tools = ProgramTools(
            setup.tool_names,
            self._find,
            is_reachable=_is_reachable,
            fetch=setup.fetch_name,
            hosts=setup.egress,
        )
        self.options: Options = make_options(f"tool {setup.name!r}", setup.tool_options())
        self._owner: ref[object] | None = None
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()

    def __call__(self, **options: Any) -> CodeInterpreter:
        """The same tool with these options in place of its own: `code_interpreter(timeout=5, memory="512MiB")`.

        The options of `Interpreter`, and: `session` ("thread": a call finds what earlier calls of its thread defined; "call": each
        call has its own session, and only then may results be cached), `max_sessions` (16), `idle_after` (1800 s), `warm` (keep a
        spare session with numpy, pandas and matplotlib imported), `cache`, `call_timeout` (300 s, the whole call), `tools` (what
        programs may use as `tools.NAME(...)`), `max_uses` (1,000 in a call), `max_uses_at_once` (10), `max_use_wait` (600 s, for
        all uses of a call), `egress` (hosts that programs may reach with `fetch(url)`), `name`, `description`, and
        `options` for all other options of `@tool`.
        """
        return CodeInterpreter(parse_options(options, self.setup))

    @property
    def description(self) -> str:
        """With the tools that programs may use now. The same text while they are the same."""
        if not self.setup.uses_tools or self.setup.description is not None:
            return self._description[0]
        listed = self._tools.text
        if self._description[1] is not listed:
            self._description = self.setup.description_text() + listed, listed
        return self._description[0]

    def owned_by(self, owner: object) -> CodeInterpreter:
        """This tool, bound to one runtime. A second runtime at the same time gets a copy, because threads of the same name in two
        runtimes are unrelated. Tools that the options have, and not only name, are registered there."""
        other = self._owner() if self._owner is not None else None
        if other is not None and other is not owner:
            return CodeInterpreter(self.setup).owned_by(owner)
        self._owner = ref(owner)
        if isinstance(owner, Registry):
            for name, given in self._given.items():
                if name not in owner.tools:
                    owner.add(given)
            if self._fetch is not None:
                owner.add_part(self._fetch)
        return self

    def _find(self, name: str) -> Tool | None:
        owner = self._owner() if self._owner is not None else None
        return owner.get(name) if isinstance(owner, Registry) else self._given.get(name)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def sessions(self) -> dict[SessionKey, PooledInterpreter]:
        """Interpreters that have or had a session, by thread: `sessions["ann"]`, or by caller and thread:
        `sessions["key-1", "ann"]`."""
        return {key: found for pool in self._pools.values() for key, found in pool.interpreters.items()}  # type: ignore[misc]

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"task": arguments["task"], "file_names": list(arguments.get("file_names") or ())}

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> dict[str, Any] | WithFiles:
        key = session_key(ctx.caller, ctx.thread) if self.traits.one_call_per_thread else None
        try:
            async with self._pool().lend(key, ctx.note, caller=ctx.caller) as pooled, self._uses(ctx) as uses:
                result = await _follow(pooled.interpreter, bound, ctx, uses)
                is_new = pooled.runs == 1
            if uses is not None:
                uses.raise_failure()
        except ProgramFailed:
            raise
        except ClicketError as error:
            raise SandboxBroken(error) from error
        if result.fatal:
            raise ProgramFailed(
                _failure(result), status=result.status, **({"reason": result.reason} if result.reason else {})
            )
        if self.traits.one_call_per_thread and is_new and result.error is not None and result.error.type == "NameError":
            result = msgspec.structs.replace(result, warnings=(*result.warnings, _NEW))
        return _with_pictures(result)

    def _uses(self, ctx: ToolContext) -> AbstractAsyncContextManager[ProgramUses | None]:
        setup = self.setup
        if not setup.uses_tools:
            return nullcontext()
        limits = UseLimits(
            max_uses=setup.max_uses, max_uses_at_once=setup.max_uses_at_once, max_use_wait=setup.max_use_wait
        )
        return ProgramUses(self._tools, nested_calls(ctx), limits)

    def is_cacheable(self, output: Any) -> bool:
        """Only successful programs: a failed one may succeed with more memory or time."""
        return bool(output["status"] == "ok")

    async def sweep(self, busy: frozenset[SessionKey] = frozenset()) -> int:
        """Close the sessions that were idle for too long."""
        pool = self._pools.get(asyncio.get_running_loop())
        return 0 if pool is None else await pool.sweep(busy)

    async def close(self) -> None:
        """Close every session; called when the runtime closes."""
        self._owner = None
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.close()
        if self._fetch is not None:  # it is not listed, so the runtime does not close it
            await self._fetch.close()

    def _pool(self) -> Pool:
        """One for each event loop: a runtime that is opened again, or in another thread, has its own sessions."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            setup = self.setup
            pool = self._pools[loop] = Pool(
                setup.factory(),
                setup.interpreter,
                max_sessions=setup.max_sessions,
                idle_after=setup.idle_after,
                warm=setup.warm,
            )
        return pool


def _is_reachable(tool: Tool) -> bool:
    """Can programs use it, if the options name it?"""
    return not isinstance(tool, CodeInterpreter) and not tool.traits.internal


class _CallArtifacts:
    """Stores the files of a run as artifacts of its call."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx

    async def put(self, pieces: bytes | Sequence[bytes]) -> str:
        return await self._ctx.put_artifact(pieces)

    async def get(self, name: str) -> bytes:
        return await self._ctx.artifact(name)


async def _follow(
    interpreter: Interpreter, bound: Mapping[str, Any], ctx: ToolContext, uses: ProgramUses | None
) -> Result:
    batcher = MessageBatcher(ctx.emit, ctx.put_artifact)
    progress = _Progress(ctx)
    messages = interpreter.stream(bound["task"], file_names=bound["file_names"], keep=_CallArtifacts(ctx), uses=uses)
    try:
        async with aclosing(messages):
            async for message in messages:
                await batcher.take(message)
                progress.see(message)
    finally:
        batcher.flush(wholly=True)
    return interpreter.history[-1]


class _Progress:
    """Reports how many of the blocks are done."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self._total: int | None = None
        ctx.progress(0, None, "reading the task")  # before any message, so that messages do not count as progress

    def see(self, message: Mapping[str, Any]) -> None:
        kind = message["type"]
        if kind == "progress":
            self._total = message["code_blocks_count"]
        elif kind == "code_execution_start":
            index = message["block_index"]
            self._ctx.progress(index, self._total, f"block {index + 1} of {self._total}")
        elif kind in ("code_execution_complete", "code_execution_error"):
            done = message["block_index"] + 1
            self._ctx.progress(done, self._total, f"block {done} of {self._total} is done")


def _with_pictures(result: Result) -> dict[str, Any] | WithFiles:
    """The output, and the pictures that it displays for a model to look at: the text that it reads has no copy of their bytes."""
    output, shown, groups = result.to_json(), list[File](), set[int]()
    brief: list[Any] = []
    for display, plain in zip(result.displays, output["displays"], strict=True):
        data = b"" if len(shown) >= _MAX_PICTURES or display.group in groups else bytes_of(display.mime, display.data)
        if type_in(data[:32]) not in PICTURES:  # a program may display anything under any name
            brief.append(plain)
            continue
        groups.add(display.group)
        shown.append(Image(display.artifact or data, name=f"figure-{len(shown) + 1}"))
        brief.append({name: value for name, value in plain.items() if name != "data"})
    return WithFiles(output, shown, as_text({**output, "displays": brief})) if shown else output


def _failure(result: Result) -> str:
    """For the model: the error, the traceback, and the end of the output."""
    error = result.error
    how = f"{result.status} ({result.reason})" if result.reason else result.status
    if error is not None and error.block_index is not None:
        how += f" in block {error.block_index + 1}"
    said = "the program did not end well." if error is None else error.message
    parts = [said if how == "error" else f"{how}: {said}"]
    if error is not None and error.traceback:
        parts.append(error.traceback[-_MAX_EXCERPT:].strip())
    for name in ("stdout", "stderr"):
        text = getattr(result, name)
        if text.strip():
            parts.append(f"The last of {name}:\n{text[-_MAX_EXCERPT // 2 :].strip()}")
    return "\n".join(parts)


code_interpreter: CodeInterpreter = CodeInterpreter(InterpreterOptions())
"""Runs Python code in a sandbox. Usable as it is; `code_interpreter(memory="2GiB", session="call")` returns one with other options."""
