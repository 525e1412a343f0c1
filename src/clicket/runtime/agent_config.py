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
from clicket.runtime.settings.tables import AgentTable, given_of

__all__ = ["HOW_TO_DECLARE", "Declared", "agents_of", "chosen", "declared_agents", "default_name"]

_KINDS: dict[str, type[Agent]] = {"react": ReActAgent, "plan": PlanExecuteAgent}
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


def _declared(name: str, table: AgentTable, place: str, known_tools: Collection[str] | None) -> Declared:
    given = given_of(table)
    if "model" not in given:  # `clicket chat --model` may bring one
        raise UsageError(f'{place}: it has no model. Add model = "openai:NAME", "anthropic:NAME" or "script:FILE".')
    model, kind = _model(place, "model", given.pop("model")), given.pop("kind", "react")
    _check_tools(place, given.get("tools", ()), known_tools)
    if isinstance(given.get("output"), str):
        given["output"] = _schema(place, given["output"])
    if "checks" in given:
        given["checks"] = [
            check for number, each in enumerate(given["checks"], 1) for check in _checks(place, number, each)
        ]
    brought = _middleware(place, given)
    if brought:
        given["middleware"] = brought
    if "executor" in given:
        given["executor"] = _model(place, "executor", given["executor"])
    return Declared(name=name, kind=kind, model=model, options=given)


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
            options = given_of(given.pop("workspace"))
            made.append(Workspace(options.pop("path"), **options))
    except UsageError as error:
        raise UsageError(f"{place}: {key}: {error.message}") from None
    return made


def _check_tools(place: str, tools: Collection[str], known: Collection[str] | None) -> None:
    for tool in tools:
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
