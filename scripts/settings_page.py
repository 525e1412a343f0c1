"""The page that lists every key of `clicket.toml`, with its type, default and meaning, in English and in Chinese.

All is read from the structs that check the file. The Chinese meanings are in `settings.zh-CN.toml`, by section and key; one that is
missing or left over stops the script.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import tomllib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import msgspec

from clicket.adapters.mcp import McpServer
from clicket.agents import PlanExecuteAgent, ReActAgent, Workspace
from clicket.engine.spend.budgets import Budget
from clicket.engine.spend.prices import Price
from clicket.engine.stages import Condition, Rule
from clicket.engine.stages.policy_config import PolicyTable
from clicket.interpreter.sandbox import Limits as SandboxLimits
from clicket.model.tables import fields_of, said
from clicket.model.tool_tables import Budget as SearchBudget
from clicket.model.tool_tables import InterpreterTable, SearchTable
from clicket.runtime.settings.settings import GROUPS, KEYS, TABLES, Settings
from clicket.runtime.settings.tables import AgentTable, McpServerTable, PlanTable, ReactTable, WorkspaceTable
from clicket.safety.credentials import Provider
from clicket.safety.oauth.config import OAuthConfig
from clicket.telemetry.webhooks import Endpoint

__all__ = ["settings_pages"]

CHINESE = Path(__file__).with_name("settings.zh-CN.toml")
AGENT, PLAN, SERVER = ReActAgent.__init__, PlanExecuteAgent.__init__, McpServer.__init__
# Heading, table, what has the defaults that the table leaves out, and guide.
SECTIONS: tuple[tuple[str, type[msgspec.Struct], Callable[..., Any] | None, str], ...] = (
    ("[agents.NAME]", AgentTable, AGENT, "agents.md"),
    ("[agents.NAME], kind react", ReactTable, AGENT, "agents.md"),
    ("[agents.NAME], kind plan", PlanTable, PLAN, "agents.md"),
    ("[agents.NAME.workspace]", WorkspaceTable, Workspace.__init__, "workspaces.md"),
    ("[policy]", PolicyTable, None, "policy-and-approvals.md"),
    ("[[policy.rules]]", Rule, None, "policy-and-approvals.md"),
    ("[[policy.rules.when]]", Condition, None, "policy-and-approvals.md"),
    ("[[budgets]]", Budget, None, "spend.md"),
    ("[[prices]]", Price, None, "spend.md"),
    ("[[webhooks]]", Endpoint, None, "notices.md"),
    ("[[providers]]", Provider, None, "credentials.md"),
    ("[oauth]", OAuthConfig, None, "oauth.md"),
    ("[mcp.servers.NAME]", McpServerTable, SERVER, "mcp.md"),
    ("[interpreter]", InterpreterTable, None, "code-interpreter.md"),
    ("[interpreter.limits]", SandboxLimits, None, "sandbox.md"),
    ("[search]", SearchTable, None, "deep-search.md"),
    ("[search.budget]", SearchBudget, None, "deep-search.md"),
)
WORDS = {
    "title": "Settings",
    "about": "Arguments win over the environment, the environment over `clicket.toml` (or the file that `CLICKET_CONFIG` names), that "
    "over the defaults. `clicket config` shows each value and where it came from. Each key is a keyword of `Settings` and `Runtime`, "
    "too, and a variable: `CLICKET_` and the key in capitals. In a variable, lists have commas between their items, and tables are "
    "JSON; an empty one means None where None is possible.",
    "key": "key",
    "read": "in Python",
    "type": "type",
    "default": "default",
    "meaning": "meaning",
    "guide": "Guide",
}


class Row(NamedTuple):
    key: str
    read: str
    """Of a key of the file itself: where it is in `Settings`."""
    type: str
    default: str
    meaning: str


def settings_pages(made: str) -> tuple[str, str]:
    """The English and the Chinese page. `made` says that it is made."""
    sections = {name: list(rows) for name, rows in _sections()}
    chinese = tomllib.loads(CHINESE.read_text("utf-8"))
    words, types = chinese.pop("words"), chinese.pop("types")
    wanted = {(name, row.key) for name, rows in sections.items() for row in rows}
    there = {(name, key) for name, texts in chinese.items() for key in texts}
    if wanted != there:
        raise SystemExit(f"{CHINESE.name}: missing {sorted(wanted - there)}, left over {sorted(there - wanted)}")
    translated = {
        name: [row._replace(type=_replaced(row.type, types), meaning=chinese[name][row.key]) for row in rows]
        for name, rows in sections.items()
    }
    return _page(made, WORDS, sections), _page(made, words, translated)


def _replaced(text: str, words: dict[str, str]) -> str:
    for english, other in words.items():
        text = text.replace(english, other)
    return text


def _sections() -> Iterator[tuple[str, Iterator[Row]]]:
    yield "Settings", _keys_of("", Settings)
    for group, kind in GROUPS.items():
        yield f"settings.{group}", _keys_of(group, kind)
    for name, table, home, _ in SECTIONS:
        yield name, _rows_of(table, home)


def _keys_of(group: str, kind: type) -> Iterator[Row]:
    meanings = _meanings(kind)
    own = {table.__name__: table for _, table, _, _ in SECTIONS}
    types = get_type_hints(Settings, localns={**own, "Policy": PolicyTable}, include_extras=True)
    for name, key in KEYS.items():
        if key.group == group:
            read = f"settings.{group}.{key.name}" if group else f"settings.{name}"
            yield Row(
                name,
                read,
                _type(key.type if name not in TABLES else types[name]),
                _shown(key.default),
                meanings[key.name],
            )


def _rows_of(table: type[msgspec.Struct], home: Callable[..., Any] | None) -> Iterator[Row]:
    meanings, parameters = _meanings(table), {} if home is None else inspect.signature(home).parameters
    inherited = set(fields_of(AgentTable)) if table is not AgentTable and issubclass(table, AgentTable) else set()
    for key, field in fields_of(table).items():
        if key not in inherited:
            default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
            if default is msgspec.UNSET and key in parameters:
                default = parameters[key].default
            yield Row(key, "", _type(field.type), _shown(default), meanings[field.name])


def _type(kind: Any) -> str:
    """In words, without the keys of a table: it has a section of its own."""
    return said(kind).replace(" for no limit", "").partition(" with ")[0]


def _meanings(kind: type) -> dict[str, str]:
    """The text below each field, in the class and in those above it."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("clicket."):
            body = ast.parse(textwrap.dedent(inspect.getsource(each))).body[0].body  # type: ignore[attr-defined]  # a class
            for field, text in pairwise(body):
                if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                    found[ast.unparse(field.target)] = " ".join(ast.literal_eval(text.value).split())
    return found


def _shown(value: Any) -> str:
    if value in (msgspec.NODEFAULT, msgspec.UNSET, inspect.Parameter.empty, None, "", (), {}) or value == frozenset():
        return ""
    if isinstance(value, msgspec.Struct) or len(repr(value)) > 80:
        return "…"
    return f"`{str(value).lower()}`" if isinstance(value, bool) else f"`{value!r}`"


def _page(made: str, words: dict[str, str], sections: dict[str, list[Row]]) -> str:
    parts = [f"# {words['title']}", made, words["about"]]
    guides = {name: guide for name, _, _, guide in SECTIONS}
    for name, rows in sections.items():
        parts.append(f"## `{name}`")
        if name in guides:
            parts.append(f"[{words['guide']}](../guides/{guides[name]})")
        head = ["key", "read", "type", "default", "meaning"] if rows[0].read else ["key", "type", "default", "meaning"]
        lines = ["| " + " | ".join(words[each] for each in head) + " |", "|" + "---|" * len(head)]
        for row in rows:
            shown = row._replace(key=f"`{row.key}`", read=f"`{row.read}`", type=row.type.replace("'", "`"))
            lines.append("| " + " | ".join(getattr(shown, each).replace("|", "\\|") for each in head) + " |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"
