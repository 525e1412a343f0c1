"""Tools with sessions, one per caller and thread: a session is opened once, used by one call at a time, and closed when it is idle
and at exit. Two callers that use the same thread name have separate sessions."""

from __future__ import annotations

import copy
import inspect
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from clicket import system
from clicket.errors import UsageError
from clicket.system.bridge import ThreadPool
from clicket.tools.context import ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.function import name_of, snake_case
from clicket.tools.options import Options, make_options
from clicket.tools.place import placed
from clicket.tools.protocol import SessionKey, Traits
from clicket.tools.schema import DIALECT, docstring_of
from clicket.tools.union_bound import UnionBound

logger = logging.getLogger("clicket.tools")

__all__ = ["NativeTool", "Session", "SessionKey", "SessionTool", "session_key"]


def session_key(caller: str, thread: str) -> SessionKey:
    return (caller, thread) if caller else thread


class NativeTool:
    """Subclass it, and write `open`, `run` and `close`; any of them may be async. Each thread gets an instance of its own.

    `input_schema` is the JSON Schema of `arguments`; a pydantic model named `Arguments` inside the class serves as well.
    Options of `@tool` are given as class attributes or class keywords: `class Counter(NativeTool, timeout=5): ...`.
    """

    name: ClassVar[str | None] = None
    description: ClassVar[str | None] = None
    input_schema: ClassVar[Mapping[str, Any] | None] = None
    idle_after: ClassVar[float] = 300.0
    _options: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        cls.name = options.pop("name", cls.__dict__.get("name"))
        cls.description = options.pop("description", cls.__dict__.get("description"))
        cls._options = {**cls._options, **options}

    def open(self, thread: str) -> Any:
        """Prepare the session of a thread; called once, before its first call."""

    def run(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        raise UsageError(f"{type(self).__name__}: write a method `run(self, arguments, ctx)`.")

    def close(self) -> Any:
        """Release what `open` acquired."""


class Session(msgspec.Struct, kw_only=True):
    """One thread's session, for inspection: its connection, its use, and its instance's attributes as `state`."""

    thread: str
    caller: str = ""
    connection: str = "closed"
    opened_at: float | None = None
    last_used_at: float | None = None
    calls: int = 0
    instance: Any = None

    @property
    def key(self) -> SessionKey:
        return session_key(self.caller, self.thread)

    @property
    def state(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self.instance).items() if not key.startswith("_")}


class SessionTool(ToolDefaults):
    """The tool that the runtime calls. It passes each call to the instance of the call's thread."""

    traits = Traits(one_call_per_thread=True)

    def __init__(self, given: NativeTool | type[NativeTool]) -> None:
        kind = given if isinstance(given, type) else type(given)
        where = placed(f"tool {kind.name or kind.__name__!r}", kind if kind.run is not NativeTool.run else None)
        if kind.run is NativeTool.run:
            raise UsageError(f"{where}: write a method `run(self, arguments, ctx)`.")
        try:
            given() if isinstance(given, type) else copy.deepcopy(given)
        except TypeError as error:
            raise UsageError(
                f"{where}: each thread needs an instance of its own, and none can be made: {error}. "
                "Register a class that takes no arguments, or an instance that can be copied; open connections in open()."
            ) from None
        self._given = given
        self.name = name_of(kind.name, snake_case(kind.__name__), where)
        self.description = kind.description or docstring_of(kind)[0]
        declared = {k: getattr(kind, k) for k in Options.__struct_fields__ if k in _attributes(kind)}
        self.options = make_options(where, {**declared, **kind._options})
        if self.options.isolation in ("process", "ray"):
            raise UsageError(
                f"{where}: a tool with a state of its own cannot run in another process; use thread or inline."
            )
        self.idle_after = kind.idle_after
        model = getattr(kind, "Arguments", None)
        self._model = model if model is not None and hasattr(model, "model_json_schema") else None
        self.input_schema: Mapping[str, Any] = (
            self._model.model_json_schema()
            if self._model
            else (kind.input_schema if kind.input_schema is not None else {"$schema": DIALECT, "type": "object"})
        )
        self._bound: UnionBound | None = None
        self.is_async = any(inspect.iscoroutinefunction(m) for m in (kind.run, kind.open, kind.close))
        self.run = self._run_async if self.is_async else self._run
        self.sessions: dict[SessionKey, Session] = {}
        """By thread; those of callers by caller and thread: `sessions["ann"]`, `sessions["key-1", "ann"]`."""

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        if self._model is None:
            return dict(arguments)
        from pydantic import ValidationError  # the model's author imported it

        from clicket.tools.pydantic_arguments import complaints

        if self._bound is None:
            self._bound = UnionBound(self.input_schema)
        self._bound.check(arguments)
        try:
            bound: dict[str, Any] = self._model.model_validate(arguments).model_dump()
        except ValidationError as error:
            raise complaints(error) from None
        return bound

    def _session(self, ctx: ToolContext) -> Session:
        key = session_key(ctx.caller, ctx.thread)
        session = self.sessions.get(key)
        if session is None:
            instance = self._given() if isinstance(self._given, type) else copy.deepcopy(self._given)
            session = self.sessions[key] = Session(thread=ctx.thread, caller=ctx.caller, instance=instance)
        session.last_used_at = system.now()
        session.calls += 1
        return session

    def _run(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        session = self._session(ctx)
        if session.connection == "closed":
            session.instance.open(ctx.thread)
            session.connection, session.opened_at = "open", system.now()
        return session.instance.run(arguments, ctx)

    async def _run_async(self, arguments: dict[str, Any], ctx: ToolContext) -> Any:
        session = self._session(ctx)
        if session.connection == "closed":
            await _maybe(session.instance.open(ctx.thread))
            session.connection, session.opened_at = "open", system.now()
        return await _maybe(session.instance.run(arguments, ctx))

    async def sweep(self, busy: frozenset[SessionKey] = frozenset()) -> int:
        """Close the sessions that were not used for `idle_after` seconds and are not in use."""
        limit = system.now() - self.idle_after
        idle = [s for s in self.sessions.values() if (s.last_used_at or 0) < limit and s.key not in busy]
        return await self._end(idle)

    async def close(self) -> None:
        """Close every session; called when the runtime closes."""
        await self._end(list(self.sessions.values()))

    async def _end(self, sessions: list[Session]) -> int:
        for session in sessions:
            self.sessions.pop(session.key, None)
            if session.connection == "open":
                session.connection = "closed"
                try:
                    await self._close(session)
                except Exception:  # the other sessions must be closed all the same
                    logger.exception("tool %s: the session of thread %s could not be closed", self.name, session.thread)
        return len(sessions)

    async def _close(self, session: Session) -> None:
        if self.is_async:
            await _maybe(session.instance.close())
            return
        closer = ThreadPool(1, "clicket-close")
        try:
            await closer.run(session.instance.close)
        finally:
            closer.close()


def _attributes(kind: type) -> set[str]:
    return {name for base in kind.__mro__ if base not in (NativeTool, object) for name in vars(base)}


async def _maybe(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
