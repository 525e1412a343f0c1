"""Stage 3: do the arguments fit the schema? Reports all errors at once, each with its path. The tool never gets arguments that do not
fit."""

from __future__ import annotations

from typing import Any

from clicket.call import Call
from clicket.errors import MAX_PROBLEMS, ClicketError, InvalidInput
from clicket.model.arguments import parse_arguments
from clicket.model.codec import decode_big, encode, is_small
from clicket.tools import Check, Tool, compile_schema
from clicket.vault import MASK, look, watch_for

__all__ = ["Validate"]

_CONTAINERS = frozenset({dict, list})
_MAX_LOOKED_AT = 1024 * 1024


class Validate:
    name = "validate"

    def __init__(self, *, max_size: int) -> None:
        self._max_size = max_size
        self._discreet: dict[Tool, Check] = {}

    def __call__(self, call: Call) -> None:
        given, tool = call.given, call.tool
        if type(given) is dict and tool is not None and call.request.metadata is None:
            bound = tool.bind_plain(given)
            if bound is not None:  # a few scalars of exactly the right types: they fit the schema and hold no secret
                call.arguments = call.bound = bound
                return
        arguments = parse_arguments(call.given, max_size=self._max_size)
        check = call.check
        assert tool is not None and check is not None, "the find stage has run"  # noqa: PT018  # one line of a hot path
        secrets = look(arguments, call.request.metadata, tool.options.sensitive)
        problems = check(arguments)
        if secrets is not None:
            call.secrets = secrets
            watch_for(secrets)
            problems = problems and self._without_values(tool, arguments)
        if problems:
            raise InvalidInput(
                problems + _further(tool, arguments, problems), f"See the input schema of {call.entry.tool!r}."
            )
        # A tool may change its arguments, and that must not change the record: the two share no containers.
        shared = not _CONTAINERS.isdisjoint(map(type, arguments.values()))
        own = decode_big(encode(arguments)) if shared else arguments
        try:
            call.bound = tool.bind(own)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"the tool's own check failed: {type(error).__name__}: {error}") from error
        call.arguments = arguments

    def with_arguments(self, call: Call, arguments: Any) -> None:
        """Validate other arguments, such as an approver's, and set them on the call."""
        call.replace_given(arguments)
        call.secrets = None
        self(call)

    def look_for_secrets(self, call: Call) -> None:
        """Find the secrets of a call that was refused before validation: a policy or a parser may have quoted one."""
        if call.secrets is not None:
            return
        try:
            arguments = parse_arguments(call.given, max_size=_MAX_LOOKED_AT)
        except ClicketError:
            arguments = {}
        sensitive = call.tool.options.sensitive if call.tool is not None else frozenset[str]()
        call.secrets = found = look(arguments, call.request.metadata, sensitive, refuse=False)
        if found is not None:
            watch_for(found)

    def _without_values(self, tool: Tool, arguments: dict[str, Any]) -> list[dict[str, str]]:
        """The same errors without secrets: an error quotes the value, perhaps cut, so the value is masked first."""
        if tool not in self._discreet:
            self._discreet[tool] = compile_schema(tool.input_schema, f"tool {tool.name!r}", mask=MASK)
        return self._discreet[tool](arguments)


def _further(tool: Tool, arguments: dict[str, Any], known: list[dict[str, str]]) -> list[dict[str, str]]:
    """Errors that only the tool's own types find, at places where the schema found none."""
    if len(known) > MAX_PROBLEMS or not is_small(arguments):
        return []
    try:
        tool.bind(arguments)
    except InvalidInput as error:
        places = tuple(problem["path"] for problem in known)
        return [problem for problem in error.problems if not problem["path"].startswith(places)]
    except Exception:
        return []  # the schema's errors are enough to refuse the call
    return []
