"""What is written in the file and in the environment, as values: text that stands for a list or a table, and tables.

A table is read by the part that it is for. The parts are imported here, where there is such a table: every command reads settings, and
few need a policy or an engine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.errors import InvalidInput, UsageError
from clicket.model.tables import read

__all__ = ["add_oauth_options", "from_text", "half_of_memory", "read_table"]

_LISTS_OF_TABLES = ("budgets", "prices", "webhooks", "providers")


def read_table(key: str, given: Any, origin: str, public_url: str | None) -> Any:
    """A table of the settings, or a list of tables, as the part that it is for takes it."""
    where = f"[[{key}]] of {origin}" if key in _LISTS_OF_TABLES else f"[{key}] of {origin}"
    if key in ("agents", "mcp"):
        from clicket.runtime.settings.tables import agent_tables, mcp_servers

        return (agent_tables if key == "agents" else mcp_servers)(given, origin)
    if key in ("interpreter", "search"):
        from clicket.model.tool_tables import InterpreterTable, SearchTable

        return read(InterpreterTable if key == "interpreter" else SearchTable, given, where)
    if key == "policy":
        from clicket.engine.stages import declared_policy

        return declared_policy(given, where)
    if key in ("budgets", "prices"):
        from clicket.engine.spend import declared_budgets, declared_prices

        return (declared_prices if key == "prices" else declared_budgets)(given, where)
    if key == "webhooks":
        from clicket.telemetry.webhooks.config import endpoints_of

        return endpoints_of(given, where)
    if key == "providers":
        from clicket.safety.credentials import declared_providers

        return declared_providers(given, where)
    from clicket.safety.oauth.config import declared_oauth

    return declared_oauth(given, where, public_url=public_url) if given else None


def from_text(key: str, text: str, origin: str) -> Any:
    """The list or table that a text stands for: names with commas, `weather=60, default=300`, or JSON."""
    where = f"setting {key} (from {origin})"
    if key == "policy" and not text.strip():  # an empty variable must not allow what the file denies
        raise UsageError(f"{where}: it is empty. Unset it, or write {{}} to allow everything.")
    if key in _LISTS_OF_TABLES:
        return _json_list(text, where)
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if key == "cache_ttl":
        if not all(part.count("=") == 1 for part in parts):
            raise UsageError(f"{where}: {text!r} is not a list like 'weather=60, default=300'.")
        return dict(part.split("=") for part in parts)
    return (
        parts
        if key in ("tools", "labels", "api_keys", "allowed_hosts", "allowed_origins")
        else _json_object(text, where)
    )


def add_oauth_options(values: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str], prefix: str) -> None:
    """Add the options of `CLICKET_OAUTH_ISSUER` and so on to those of the file or of `CLICKET_OAUTH`."""
    from clicket.safety.oauth.config import from_environment

    table, origin = values.get("oauth", {}), origins.get("oauth", "")
    table = from_text("oauth", table, origin) if isinstance(table, str) else table
    values["oauth"], variables = from_environment(environ, prefix, table)
    origins["oauth"] = ", ".join([*([origin] if origin else []), *variables])


def half_of_memory() -> int | None:
    """Half of the machine's memory: a tool in a child process that uses more is ended before the machine runs out of memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError):
        return None


def _json_object(text: str, where: str) -> dict[str, Any]:
    from clicket.model.arguments import parse_arguments

    try:
        return parse_arguments(text, max_size=1024 * 1024)
    except InvalidInput as error:
        raise UsageError(f"{where}: {error.message}") from None


def _json_list(text: str, where: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        found = None
    if not isinstance(found, list):
        raise UsageError(f"{where}: it is not a list in JSON. Write [] for none.")
    return found
