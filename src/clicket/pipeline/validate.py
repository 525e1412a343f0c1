"""Stage 3: do the arguments fit? Every complaint at once, each with its path; the tool never sees what does not fit."""

from __future__ import annotations

from clicket.errors import InvalidInput
from clicket.journal import LiveCall
from clicket.model.codec import parse_arguments
from clicket.tools import Registry

__all__ = ["Validate"]


class Validate:
    name = "validate"

    def __init__(self, registry: Registry, *, max_size: int) -> None:
        self._find = registry.find
        self._max_size = max_size

    def __call__(self, call: LiveCall) -> None:
        arguments = parse_arguments(call.request.arguments, max_size=self._max_size)
        tool, check = self._find(call.tool_name)
        problems = check(arguments)
        if problems:
            raise InvalidInput(problems, f"See the input schema of {call.tool_name!r}.")
        try:
            call.bound = tool.bind(arguments)
        except InvalidInput:
            raise
        except Exception as error:
            raise InvalidInput(f"the tool's own check failed: {type(error).__name__}: {error}") from error
        call.arguments = arguments
