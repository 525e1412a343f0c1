"""Makes the agents that `[agents.NAME]` of the settings declares. An error in a declaration is raised before anything runs, and names
its place and similar names."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from clicket.agents import Agent, Check, Memory, ReActAgent, Skills, Todo, Workspace
from clicket.agents.built_in_checks import BUILT_IN
from clicket.agents.plan_execute import PlanExecuteAgent
from clicket.errors import ClicketError, NotFound, UsageError, did_you_mean
from clicket.model.ports import ChatModel
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings

__all__ = ["HOW_TO_DECLARE", "Declared", "agents_of", "chosen", "declared_agents", "default_name"]

_KINDS: dict[str, type[Agent]] = {"react": ReActAgent, "plan": PlanExecuteAgent}
_WHOLE = "max_steps max_concurrency max_observation max_answer_tokens model_retries window".split()
_UNBOUND = "max_calls max_tokens max_repeats max_cost max_seconds".split()
"""Limits that may be `false` for no limit, because TOML has no null."""
_OPTIONS: dict[str, Any] = {
    "system": str,
    "tools": list[str],
    "on_change": str,
    "retry_delay": float,
    "window": int,
    "tool_search": bool,
    "max_offered": int,
    "output": dict[str, Any] | str,
    "output_retries": int,
    "checks": list[dict[str, Any]],
    "memory": str,
    "todo": bool,
    "skills": list[str],
    "workspace": dict[str, Any],
    **dict.fromkeys(_WHOLE, int),
    **dict.fromkeys(("max_calls", "max_tokens", "max_repeats"), int | None),
    **dict.fromkeys(("max_cost", "max_seconds"), float | None),
}
_OF_WORKSPACE = ("path", "write", "shell")
_OF_PLAN: dict[str, Any] = {"max_task_steps": int, "max_parallel": int}
_OF_REACT: dict[str, Any] = {"handoffs": list[str], "max_handoffs": int, "return_to": str}
_SHOWN = {
    str: "a text",
    list[str]: "a list of texts",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    dict[str, Any] | str: "a JSON Schema or the path of its file",
    dict[str, Any]: 'a table, such as { path = "files", shell = false }',
    list[dict[str, Any]]: 'a list of tables, such as { check = "pii", on = "output" }',
}

HOW_TO_DECLARE = (
    'Declare one in clicket.toml: [agents.helper] with model = "openai:NAME" (or "anthropic:NAME"; or "script:answers.json", which '
    "plays answers from a file and needs no key)."
)


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """A checked declaration of an agent, with its models."""

    name: str
    kind: str
    model: Any
    options: dict[str, Any]

    def on(self, rt: Runtime) -> Agent:
        """Make the agent on a runtime. The runtime's next recovery continues its interrupted turns."""
        made: Any = _KINDS[self.kind]
        try:
            agent: Agent = made(rt, self.model, name=self.name, **self.options)
        except UsageError as error:
            raise UsageError(f"[agents.{self.name}]: {error.message}") from None
        return agent


def agents_of(rt: Runtime, settings: Settings | None = None) -> dict[str, Agent]:
    """The agents of the settings (default: the runtime's), by name.

    Agents that are made before the runtime is opened continue their interrupted turns when it opens.
    """
    return {name: each.on(rt) for name, each in declared_agents(rt, settings).items()}


def declared_agents(rt: Runtime, settings: Settings | None = None) -> dict[str, Declared]:
    """The checked declarations of `[agents.NAME]`, by name; `Declared.on` makes an agent."""
    settings = rt.settings if settings is None else settings
    where = settings.origins.get("agents", "Settings")
    # Tools of MCP servers join later, so their names cannot be checked.
    tools = None if settings.mcp else [tool.name for tool in rt._registry]
    trial = Runtime(settings=Settings(store="memory://"))
    declared = {
        name: _declared(name, table, f"[agents.{name}] of {where}", tools) for name, table in settings.agents.items()
    }
    for each in declared.values():  # the constructors of agents check their options
        msgspec.structs.replace(each, options={**each.options, "tools": None}).on(trial)
    for name, each in declared.items():
        for other in each.options.get("handoffs", ()):
            if other not in declared:
                near, listed = did_you_mean(other, declared), ", ".join(map(repr, declared))
                raise UsageError(
                    f"[agents.{name}] of {where}: handoffs: there is no agent {other!r}.{near} Declared: {listed}."
                )
    default = settings.default_agent
    if default is not None and default not in declared:
        listed = ", ".join(map(repr, declared)) or "none"
        raise UsageError(
            f"default_agent (from {settings.origins.get('default_agent', 'Settings')}): there is no agent {default!r}."
            f"{did_you_mean(default, declared)} Declared: {listed}."
        )
    return declared


def default_name(names: Collection[str], settings: Settings) -> str | None:
    """The agent that is meant where none is named: `default_agent`, the only one, or the one named "default"."""
    if settings.default_agent is not None and settings.default_agent in names:
        return settings.default_agent
    return next(iter(names)) if len(names) == 1 else "default" if "default" in names else None


def chosen(agents: Mapping[str, Agent], settings: Settings, name: str | None = None) -> Agent:
    """The agent with this name, or the default agent."""
    if not agents:
        raise NotFound(f"no agent is configured. {HOW_TO_DECLARE}")
    listed = ", ".join(map(repr, agents))
    wanted = default_name(agents, settings) if name is None else name
    if wanted is None:
        raise UsageError(
            f"there are several agents ({listed}), and none is the default: name one, or set default_agent in clicket.toml."
        )
    if wanted not in agents:
        raise NotFound(f"there is no agent {wanted!r}.{did_you_mean(wanted, agents)} Configured: {listed}.")
    return agents[wanted]


def _declared(name: str, table: Any, place: str, known_tools: Collection[str] | None) -> Declared:
    if not isinstance(table, Mapping):
        raise UsageError(f'{place}: an agent is a table, such as model = "openai:NAME", not {table!r:.60}.')
    kind = table.get("kind", "react")
    if not isinstance(kind, str) or kind not in _KINDS:
        near = did_you_mean(str(kind), _KINDS)
        raise UsageError(f"{place}: there is no kind of agent {kind!r:.60}.{near} Known: {', '.join(_KINDS)}.")
    options = {**_OPTIONS, **(_OF_PLAN if kind == "plan" else _OF_REACT)}
    known = ("kind", "model", *(("executor",) if kind == "plan" else ()), *options)
    for key in table:
        if key not in known:
            near = did_you_mean(str(key), known)
            other = "plan" if key in ("executor", *_OF_PLAN) else "react" if key in _OF_REACT else ""
            only = f" It is an option of kind = {other!r}." if other else near
            raise UsageError(f"{place}: unknown key {key!r}.{only} Known: {', '.join(known)}.")
    if "model" not in table:
        raise UsageError(f'{place}: it has no model. Add model = "openai:NAME", "anthropic:NAME" or "script:FILE".')
    given = {key: _checked(place, key, table[key], options[key]) for key in table if key in options}
    _check_tools(place, given.get("tools"), known_tools)
    if isinstance(given.get("output"), str):
        given["output"] = _schema(place, given["output"])
    if "checks" in given:
        given["checks"] = [
            check for number, each in enumerate(given["checks"], 1) for check in _checks(place, number, each)
        ]
    brought = _middleware(place, given)
    if brought:
        given["middleware"] = brought
    if "executor" in table:
        given["executor"] = _model(place, "executor", table["executor"])
    return Declared(name=name, kind=kind, model=_model(place, "model", table["model"]), options=given)


def _middleware(place: str, given: dict[str, Any]) -> list[object]:
    """Takes the keys that stand for middleware."""
    made: list[object] = []
    key = "memory"
    try:
        if "memory" in given:
            made.append(Memory(given.pop("memory")))
        if given.pop("todo", False):
            made.append(Todo())
        key = "skills"
        if "skills" in given:
            made.append(Skills(*given.pop("skills")))
        key = "workspace"
        if "workspace" in given:
            options = dict(given.pop("workspace"))
            for each in options:
                if each not in _OF_WORKSPACE:
                    near = did_you_mean(each, _OF_WORKSPACE)
                    raise UsageError(f"unknown key {each!r}.{near} Known: {', '.join(_OF_WORKSPACE)}.")
            made.append(Workspace(options.pop("path", ""), **options))
    except UsageError as error:
        raise UsageError(f"{place}: {key}: {error.message}") from None
    return made


def _checked(place: str, key: str, value: Any, kind: Any) -> Any:
    if key in _UNBOUND and (value is False or value is None):
        return None
    try:
        if isinstance(value, bool) and kind is not bool:
            raise msgspec.ValidationError
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        wanted = next(shown for type_, shown in _SHOWN.items() if kind in (type_, type_ | None))
        more = ", or false for no limit" if key in _UNBOUND else ""
        raise UsageError(f"{place}: {key} must be {wanted}{more}, not {value!r:.60}.") from None


def _check_tools(place: str, tools: list[str] | None, known: Collection[str] | None) -> None:
    for tool in tools or ():
        if known is not None and tool not in known:
            listed = ", ".join(sorted(known)) or "none"
            raise UsageError(f"{place}: there is no tool {tool!r}.{did_you_mean(tool, known)} Registered: {listed}.")


def _checks(place: str, number: int, table: Mapping[str, Any]) -> list[Check]:
    """A check of clicket's own, for each place that `on` names. The other keys are its parameters."""
    where = f"{place}: checks[{number}]"
    name, on = table.get("check"), table.get("on")
    make = BUILT_IN.get(name) if isinstance(name, str) else None
    if make is None:
        near = did_you_mean(str(name), BUILT_IN)
        raise UsageError(
            f"{where}: there is no check {name!r:.60}.{near} Known: {', '.join(BUILT_IN)}. Others are made in Python."
        )
    given = {key: value for key, value in table.items() if key not in ("check", "on", "tools")}
    parameters = inspect.signature(make).parameters
    for key in given:
        if key not in parameters:
            known = ("check", "on", "tools", *parameters)
            raise UsageError(f"{where}: unknown key {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")
    for key, parameter in parameters.items():
        if key not in given and parameter.default is parameter.empty:
            raise UsageError(f"{where}: {name} needs {key}.")
    try:
        places: list[Any] = on if isinstance(on, list) else [on]
        return [Check(make(**given), on=each, tools=table.get("tools")) for each in places]
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None


def _schema(place: str, path: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(Path(path).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{place}: output: the JSON Schema {path!r} cannot be read: {error}.") from None


def _model(place: str, key: str, named: Any) -> ChatModel:
    from clicket.models import model_of  # imported late: it is slow, and needed only if an agent is declared

    try:
        return model_of(named)
    except ClicketError as error:
        raise UsageError(f"{place}: {key}: {error.message}") from None
