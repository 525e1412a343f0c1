"""Tables of agents and of MCP servers, as `clicket.toml` has them. What is left out has the default of the agent or server itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from clicket.errors import UsageError, did_you_mean
from clicket.model.tables import SECRET, fields_of, read

__all__ = [
    "AgentTable",
    "McpServerTable",
    "PlanTable",
    "ReactTable",
    "WorkspaceTable",
    "agent_tables",
    "given_of",
    "mcp_servers",
]


class WorkspaceTable(msgspec.Struct, frozen=True, kw_only=True):
    """A folder whose files an agent reads and writes."""

    path: str = ""
    """The folder."""
    write: bool | UnsetType = UNSET
    """Whether it may write and edit files."""
    shell: str | bool | UnsetType = UNSET
    """Commands in the sandbox: `"ask"`, each after a person's approval; `"allow"`, without one; `false`, not at all."""


class AgentTable(msgspec.Struct, frozen=True, kw_only=True):
    """The options that both kinds of agents have."""

    model: Any = UNSET
    """`"openai:NAME"`, `"anthropic:NAME"`, `"pydantic-ai:VENDOR:NAME"`, `"script:FILE"`, a table, or a list for one after another."""
    kind: Literal["react", "plan"] = "react"
    """`react` asks the model and runs the tools that it asks for; `plan` makes a plan, and carries out its steps."""
    system: str | UnsetType = UNSET
    """What the model is told before all messages."""
    tools: tuple[str, ...] | UnsetType = UNSET
    """Names of the tools that it may use; all of the runtime's unless given."""
    max_steps: int | UnsetType = UNSET
    """Requests to the model in one turn."""
    max_calls: int | UnsetType | None = UNSET
    """Calls of tools in one turn."""
    max_tokens: int | UnsetType | None = UNSET
    """Tokens of one turn, in and out."""
    max_cost: float | UnsetType | None = UNSET
    """US dollars of one turn."""
    max_seconds: float | UnsetType | None = UNSET
    """Seconds of one turn."""
    max_repeats: int | UnsetType | None = UNSET
    """Equal calls in one turn."""
    max_concurrency: int | UnsetType = UNSET
    """Calls of one step that run at once."""
    max_observation: int | UnsetType = UNSET
    """Characters of a result that the model reads at once."""
    max_answer_tokens: int | UnsetType = UNSET
    """Tokens of one reply."""
    model_retries: int | UnsetType = UNSET
    """How often a request that failed for a while is tried again."""
    retry_delay: float | UnsetType = UNSET
    """Seconds before the first of them; doubled each time."""
    window: int | UnsetType = UNSET
    """Tokens of one request, about."""
    tool_search: bool | UnsetType = UNSET
    """The model finds tools with `find_tools` if there are more than `max_offered`."""
    max_offered: int | UnsetType = UNSET
    """Tools that are offered at once; it turns `tool_search` on."""
    output: dict[str, Any] | str | UnsetType = UNSET
    """The JSON Schema of its answers, or the path of its file."""
    output_retries: int | UnsetType = UNSET
    """How many answers of a turn may be refused."""
    checks: tuple[dict[str, Any], ...] | UnsetType = UNSET
    """What it may be told, answer, call and read: `{ check = "pii", on = "output" }`."""
    memory: str | UnsetType = UNSET
    """It remembers facts about its callers, for all agents (`caller`) or for itself (`agent`)."""
    todo: bool | UnsetType = UNSET
    """It keeps a list of what it does."""
    skills: tuple[str, ...] | UnsetType = UNSET
    """Folders of skills, each with a `SKILL.md`."""
    workspace: WorkspaceTable | UnsetType = UNSET
    """Files of one folder."""
    on_change: str | UnsetType = UNSET
    """What becomes of a turn that was interrupted before the agent was changed: `continue` or `refuse`."""
    deltas: str | UnsetType = UNSET
    """Who reads the pieces of an answer before it is on record: `live`, readers in the process of the turn; `stored`, any process."""
    undo_on: str | tuple[str, ...] | UnsetType = UNSET
    """After which ends of a turn its calls are undone: `failed`, `cancelled`, `budget`, `max_steps`, `repeated`."""


class ReactTable(AgentTable, frozen=True, kw_only=True):
    """`kind = "react"`."""

    handoffs: tuple[str, ...] | UnsetType = UNSET
    """Agents to which its model may hand a turn."""
    max_handoffs: int | UnsetType = UNSET
    """In one turn."""
    return_to: str | UnsetType = UNSET
    """The next turn begins with the `last` agent, or with this one (`first`)."""


class PlanTable(AgentTable, frozen=True, kw_only=True):
    """`kind = "plan"`."""

    executor: Any = UNSET
    """Another model, which carries out the steps of the plan."""
    max_task_steps: int | UnsetType = UNSET
    """Requests to the model for one step of the plan."""
    max_parallel: int | UnsetType = UNSET
    """Steps of the plan at once."""


class McpServerTable(msgspec.Struct, frozen=True, kw_only=True):
    """One other MCP server: a `url`, or a `command`. `${NAME}` in a header or a variable is read from the environment."""

    url: str | UnsetType = UNSET
    """Where it is, over HTTP."""
    headers: Annotated[Mapping[str, str | int | float | bool], SECRET] | UnsetType = UNSET
    """Sent with every request."""
    credentials: str | UnsetType = UNSET
    """The provider whose token of the call's caller is sent."""
    command: str | tuple[str, ...] | UnsetType = UNSET
    """The program that is started, alone or with its arguments."""
    args: tuple[str, ...] | UnsetType = UNSET
    """The program's arguments."""
    env: Annotated[Mapping[str, str | int | float | bool], SECRET] | UnsetType = UNSET
    """Variables for it, beside the few that are safe to inherit."""
    cwd: str | UnsetType = UNSET
    """Its working directory."""
    prefix: str | UnsetType = UNSET
    """Put before the names of its tools."""
    connect_timeout: float | UnsetType = UNSET
    """Seconds."""
    trust_hints: bool | UnsetType = UNSET
    """Whether its hints say which tools are read-only and idempotent."""
    options: dict[str, Any] | UnsetType = UNSET
    """Options of `@tool`, for each of its tools."""
    max_tools: int | UnsetType = UNSET
    """Of more tools the first ones are taken."""
    protocol: str | UnsetType = UNSET
    """`auto`, `2025-11-25` or `2026-07-28`."""
    questions: bool | UnsetType = UNSET
    """Whether its questions to the user are asked."""
    question_timeout: float | UnsetType | None = UNSET
    """Seconds for each of them."""
    roots: tuple[str, ...] | UnsetType = UNSET
    """Folders that it may know of."""

    def __repr__(self) -> str:
        return "<an MCP server>"


def agent_tables(given: Any, origin: str) -> dict[str, AgentTable]:
    return {
        name: _agent(table, f"[agents.{name}] of {origin}") for name, table in _named("agents", given, origin).items()
    }


def mcp_servers(given: Any, origin: str) -> dict[str, McpServerTable]:
    """`[mcp.servers.NAME]`."""
    servers = _named("mcp", given, origin).get("servers", {})
    return {
        name: read(McpServerTable, table, f"[mcp.servers.{name}] of {origin}")
        for name, table in _named("mcp.servers", servers, origin).items()
    }


def given_of(table: msgspec.Struct) -> dict[str, Any]:
    """The options that a table has."""
    return {name: value for name in table.__struct_fields__ if (value := getattr(table, name)) is not UNSET}


def _named(key: str, given: Any, origin: str) -> Mapping[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{key} of {origin} must be tables. Write [{key}.NAME] before each.")
    return given


def _agent(given: Any, where: str) -> AgentTable:
    kinds: dict[str, type[AgentTable]] = {"react": ReactTable, "plan": PlanTable}
    if not isinstance(given, Mapping):
        raise UsageError(f'{where}: an agent is a table, such as model = "openai:NAME", not {given!r:.60}.')
    kind = given.get("kind", "react")
    if not isinstance(kind, str) or kind not in kinds:
        raise UsageError(
            f"{where}: there is no kind of agent {kind!r:.60}.{did_you_mean(str(kind), kinds)} Known: {', '.join(kinds)}."
        )
    for other, table in kinds.items():
        for key in (set(fields_of(table)) - set(fields_of(kinds[kind]))) & set(given):
            raise UsageError(f"{where}: unknown key {key!r}. It is an option of kind = {other!r}.")
    made: AgentTable = read(kinds[kind], given, where)
    return made
