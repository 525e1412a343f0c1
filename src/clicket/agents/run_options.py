"""Options of one run. What is on record holds for the turn wherever it goes on; models are values of a process, known by their names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypedDict

import msgspec

from clicket.agents.again import Again
from clicket.agents.output import Output
from clicket.agents.turn_limits import Limits
from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import encode
from clicket.model.deps import NO_DEPS, RunDeps
from clicket.model.ports import ChatModel
from clicket.tools import Tool

__all__ = [
    "NO_OPTIONS",
    "NO_VALUES",
    "Brought",
    "Given",
    "RunOptions",
    "RunValues",
    "Taking",
    "deps_of",
    "model_name",
    "options_in",
    "taken",
    "tool_names",
]

_MAX_BYTES = 256 * 1024
Key = tuple[str, str, int]
"""Caller, thread and turn."""


class Given(TypedDict, total=False):
    """`model`: asked in place of the agent's. `system`: in place of the agent's instructions. `tools`:
    narrows what the agent may use. `metadata`: JSON for middleware and readers. `limits`: in place of the agent's. `deps`: values of this
    process for tools, by name."""

    model: ChatModel
    system: str
    tools: Collection[str | Tool]
    metadata: Mapping[str, Any]
    limits: Limits
    deps: Mapping[str, Any] | RunDeps


class RunOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """As they are recorded with the turn's call. `model`: a name; `deps`: names."""

    model: str = ""
    system: str | None = None
    output: dict[str, Any] = {}
    tools: list[str] | None = None
    metadata: dict[str, Any] = {}
    limits: Limits | None = None
    deps: list[str] = []
    again: Again | None = None


class RunValues(msgspec.Struct, frozen=True, kw_only=True):
    """What this process has of them."""

    model: ChatModel | None = None
    output: Output[Any] | None = None
    deps: RunDeps = NO_DEPS


NO_OPTIONS = RunOptions()
NO_VALUES = RunValues()


class Taking(NamedTuple):
    options: RunOptions
    values: RunValues


def taken(given: Mapping[str, Any], type: Any = None) -> Taking:
    """The checked options of a run. `type`: of its answer."""
    if not given and type is None:
        return Taking(NO_OPTIONS, NO_VALUES)
    for name in given:
        if name not in Given.__annotations__:
            raise UsageError(f"a run has no option {name!r}.{did_you_mean(name, Given.__annotations__)}")
    model, system, limits = given.get("model"), given.get("system"), given.get("limits")
    if model is not None and not hasattr(model, "chat"):
        raise UsageError(f"model: {model!r:.100} is not a model: it has no method chat(request).")
    if not isinstance(system, str | None):
        raise UsageError(f"system is a text, not {system!r:.100}.")
    if not isinstance(limits, Limits | None):
        raise UsageError(f"limits is Limits(max_steps=…, …), not {limits!r:.100}.")
    output = None if type is None else Output.of(type)
    deps = deps_of(given.get("deps"))
    tools = given.get("tools")
    options = RunOptions(
        model="" if model is None else model_name(model),
        system=system,
        output={} if output is None else output.schema,
        tools=None if tools is None else sorted(tool_names(tools)),
        metadata=_metadata(given.get("metadata")),
        limits=limits,
        deps=list(deps.names),
    )
    return Taking(options, RunValues(model=model, output=output, deps=deps))


def deps_of(given: Any) -> RunDeps:
    """The deps that a caller brings."""
    if isinstance(given, RunDeps):  # of the turn that called this agent: some may be missing here
        return given
    if given is None:
        return NO_DEPS
    if not isinstance(given, Mapping) or not all(isinstance(name, str) and name for name in given):
        raise UsageError(f"deps are values by name, such as deps={{'db': pool}}, not {given!r:.100}.")
    return RunDeps(tuple(sorted(given)), dict(given))


def _metadata(given: Any) -> dict[str, Any]:
    if given is None:
        return {}
    try:
        plain = msgspec.json.decode(encode(dict(given)), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise UsageError(f"metadata is an object that can be written as JSON: {error}.") from None
    if len(encode(plain)) > _MAX_BYTES:
        raise UsageError(f"metadata has at most {_MAX_BYTES:,} bytes as JSON. Put more into a file (rt.put_artifact).")
    return plain


def options_in(recorded: Any) -> RunOptions:
    """The inverse of `msgspec.to_builtins`; the arguments of a turn's call may be masked."""
    try:
        return msgspec.convert(recorded or {}, RunOptions)
    except msgspec.ValidationError:
        return NO_OPTIONS


def model_name(model: ChatModel) -> str:
    return str(getattr(model, "name", "") or type(model).__name__)


class Brought:
    """The values that callers of this process have brought for the turns of an agent."""

    def __init__(self) -> None:
        self._values: dict[Key, RunValues] = {}

    def bring(self, key: Key, values: RunValues) -> None:
        """Adds to what was brought before: a caller that joins a turn may have what the turn waits for."""
        known = self._values.get(key, NO_VALUES)
        names = {*known.deps.names, *values.deps.names}
        deps = RunDeps(tuple(sorted(names)), {**known.deps.values, **values.deps.values})
        self._values[key] = RunValues(
            model=values.model or known.model, output=values.output or known.output, deps=deps
        )

    @property
    def turns(self) -> list[Key]:
        return list(self._values)

    def of(self, key: Key) -> RunValues:
        return self._values.get(key, NO_VALUES)

    def forget(self, key: Key) -> None:
        self._values.pop(key, None)


def tool_names(only: Collection[str | Tool]) -> frozenset[str]:
    if isinstance(only, str) or not isinstance(only, Collection):
        one = only if isinstance(only, str) else getattr(only, "name", "NAME")
        raise UsageError(f"tools is a list of names, not one name: write tools=[{one!r}].")
    names: set[str] = set()
    for each in only:
        name = each if isinstance(each, str) else getattr(each, "name", None)
        if not isinstance(name, str):
            raise UsageError(f"tools are names or tools made by @tool: {each!r:.100} is neither.")
        names.add(name)
    return frozenset(names)
