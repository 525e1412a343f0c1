"""Stage 3: do the arguments fit the schema? Reports all errors at once, each with its path. The tool never gets arguments that do not
fit.

Judging is parsing, the search for secrets and the schema's check. It takes microseconds for most arguments and up to a second for a
megabyte of small values. Arguments that are not small are judged in a thread before the call is accepted (`judge_ahead`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from clicket.engine.live_call import Call
from clicket.errors import MAX_PROBLEMS, ClicketError, InvalidInput
from clicket.model import ToolCall
from clicket.model.arguments import object_in, parse_arguments
from clicket.model.codec import decode_big, encode, is_small
from clicket.model.printable import repr_without
from clicket.safety.vault import MASK, Secrets, look, watch_for
from clicket.system.bridge import ThreadPool
from clicket.tools import Check, Tool, compile_schema
from clicket.tools.union_bound import UnionBound

_Made = TypeVar("_Made")

__all__ = ["Deferred", "Judged", "Validate"]

_CONTAINERS = frozenset({dict, list})
_MAX_LOOKED_AT = 1024 * 1024
_MAX_VISITS = 2_000
"""Where pydantic would look at more values, each of which it may refuse in an alternative of a union, the schema's errors are enough."""
_IN_THREAD = frozenset({dict, str, bytes, bytearray})
"""Types of arguments that run no code of the caller's when they are read."""


class Deferred(Exception):
    """The arguments are too big to be judged on the loop: call `judge_ahead` first."""


class Judged(msgspec.Struct, frozen=True):
    """The judgement of a call's arguments. It holds for the tool that it was made for."""

    tool: Tool
    arguments: dict[str, Any]
    secrets: Secrets | None
    own: dict[str, Any] = {}
    """A copy for the tool."""
    problems: list[dict[str, str]] = []
    refusal: InvalidInput | None = None
    """The arguments could not be parsed."""

    def __repr__(self) -> str:
        return repr_without(self, "arguments", "own")


class Validate:
    name = "validate"

    def __init__(self, *, max_size: int) -> None:
        self._max_size = max_size
        self._discreet: dict[Tool, tuple[Mapping[str, Any], Check]] = {}
        self._unions: dict[Tool, tuple[Mapping[str, Any], UnionBound]] = {}

    async def judge_ahead(self, request: ToolCall, tool: Tool, check: Check, thread_pool: ThreadPool) -> Judged | None:
        """Judge big arguments in a thread, so that the loop goes on meanwhile. None: they are small, or are judged with the call."""
        given, metadata = request.arguments, request.metadata
        if type(given) not in _IN_THREAD or is_small(given):
            return None
        return await thread_pool.run(lambda: self._judge(tool, check, given, metadata))

    def __call__(self, call: Call, judged: Judged | None = None, may_defer: bool = False) -> None:
        """`may_defer`: raise `Deferred` where the loop would be held up. `judged`: what `judge_ahead` returned."""
        given, tool = call.given, call.tool
        if tool is not None and call.request.metadata is None:
            plain = given if type(given) is not str else object_in(given) if len(given) <= self._max_size else None
            bind_plain = tool.bind_plain
            bound = bind_plain(plain) if type(plain) is dict else None
            if bound is not None:  # a few scalars of exactly the right types: they fit the schema and hold no secret
                call.arguments = call.bound = bound
                return
        if may_defer and type(given) in _IN_THREAD and not is_small(given):
            raise Deferred
        check = call.check
        assert tool is not None and check is not None, "the find stage has run"  # noqa: PT018  # one line of a hot path
        if judged is None or judged.tool is not tool:
            judged = self._judge(tool, check, given, call.request.metadata)
        arguments, problems = judged.arguments, judged.problems
        if judged.secrets is not None:
            call.secrets = judged.secrets
            watch_for(judged.secrets)
        if judged.refusal is not None:
            raise judged.refusal
        if problems:
            raise InvalidInput(
                problems + self._further(tool, arguments, problems), f"See the input schema of {call.entry.tool!r}."
            )
        try:
            call.bound = tool.bind(judged.own)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"the tool's own check failed: {type(error).__name__}: {error}") from error
        call.arguments = arguments

    def _judge(self, tool: Tool, check: Check, given: Any, metadata: Any) -> Judged:
        """Depends on nothing but its arguments, so that it may run in a thread."""
        arguments: dict[str, Any] = {}
        try:
            arguments = parse_arguments(given, max_size=self._max_size)
            secrets = look(arguments, metadata, tool.options.sensitive)
        except InvalidInput as refusal:
            secrets = look(arguments, metadata, tool.options.sensitive, refuse=False)
            return Judged(tool, arguments, secrets, refusal=refusal)
        problems = check(arguments)
        if problems:
            if secrets is not None:
                problems = self._without_values(tool, arguments)
            return Judged(tool, arguments, secrets, problems=problems)
        # A tool may change its arguments, and that must not change the record: the two share no containers.
        shared = not _CONTAINERS.isdisjoint(map(type, arguments.values()))
        return Judged(tool, arguments, secrets, decode_big(encode(arguments)) if shared else arguments)

    def with_arguments(self, call: Call, arguments: Any) -> None:
        """Validate other arguments, such as an approver's, and set them on the call."""
        call.replace_given(arguments)
        call.secrets = None
        self(call)

    def look_for_secrets(self, call: Call, judged: Judged | None = None) -> None:
        """Find the secrets of a call that was refused: a policy or a parser may have quoted one."""
        if call.secrets is not None:
            return
        if judged is not None:
            found = judged.secrets
        else:
            try:
                arguments = parse_arguments(call.given, max_size=_MAX_LOOKED_AT)
            except ClicketError:
                arguments = {}
            sensitive = call.tool.options.sensitive if call.tool is not None else frozenset[str]()
            found = look(arguments, call.request.metadata, sensitive, refuse=False)
        call.secrets = found
        if found is not None:
            watch_for(found)

    def _further(self, tool: Tool, arguments: dict[str, Any], known: list[dict[str, str]]) -> list[dict[str, str]]:
        """Errors that only the tool's own types find, at places where the schema found none."""
        if len(known) > MAX_PROBLEMS or not is_small(arguments):
            return []
        if _of_schema(self._unions, tool, UnionBound).visits(arguments, _MAX_VISITS) > _MAX_VISITS:
            return []
        try:
            tool.bind(arguments)
        except InvalidInput as error:
            places = tuple(problem["path"] for problem in known)
            return [
                problem
                for problem in error.problems
                if not problem["path"].startswith(places) and _is_place(problem["path"], arguments)
            ]
        except Exception:
            return []  # the schema's errors are enough to refuse the call
        return []

    def _without_values(self, tool: Tool, arguments: dict[str, Any]) -> list[dict[str, str]]:
        """The same errors without secrets: an error quotes the value, perhaps cut, so the value is masked first."""
        compiled = partial(compile_schema, where=f"tool {tool.name!r}", mask=MASK)
        return _of_schema(self._discreet, tool, compiled)(arguments)


def _of_schema(
    known: dict[Tool, tuple[Mapping[str, Any], _Made]], tool: Tool, make: Callable[[Mapping[str, Any]], _Made]
) -> _Made:
    """What was made of the tool's schema, or is made now: a server may give its tool another schema."""
    schema = tool.input_schema
    if tool not in known or known[tool][0] != schema:
        known[tool] = (schema, make(schema))
    return known[tool][1]


def _is_place(path: str, arguments: dict[str, Any]) -> bool:
    """Is it a path into the arguments? Pydantic's paths also name the alternative of a union, and those say too much."""
    *steps, last = path.split("/")[1:] or [""]
    value: Any = arguments
    for step in steps:
        key = step.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(key)] if isinstance(value, list) else value[key]
        except (KeyError, IndexError, ValueError, TypeError):
            return False
    return bool(last) and isinstance(value, dict | list)
