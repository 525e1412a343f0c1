"""Values of settings as they are written: JSON and lists in environment variables, and tables that are checked when they are read, so
that an error names its place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from clicket.errors import InvalidInput, UsageError

__all__ = ["add_oauth_options", "half_of_memory", "table_of"]


def table_of(name: str, value: Any, origin: str) -> Any:
    """The table that a setting has, or that its text in the environment stands for. Policies, prices and budgets are checked."""
    if name == "policy":
        return _policy(value, origin)
    if name in ("prices", "budgets"):
        return _spend_tables(value, name, origin)
    if not isinstance(value, str):
        return value
    return _json_list(value, name, origin) if name in ("webhooks", "providers") else _json_object(value, name, origin)


def add_oauth_options(values: dict[str, Any], origins: dict[str, str], environ: Mapping[str, str], prefix: str) -> None:
    """Add the options of `CLICKET_OAUTH_ISSUER` and so on to those of the file or of `CLICKET_OAUTH`."""
    from clicket.safety.oauth.config import from_environment

    table = values.get("oauth", {})
    origin = origins.get("oauth", "")
    table = _json_object(table, "oauth", origin) if isinstance(table, str) else table
    values["oauth"], variables = from_environment(environ, prefix, table)
    origins["oauth"] = ", ".join([*([origin] if origin else []), *variables])


def _policy(value: Any, origin: str) -> dict[str, Any]:
    """Check a policy when it is read, so that an error names its place."""
    from clicket.engine.stages import declared_policy

    if isinstance(value, str):
        if not value.strip():  # an empty variable must not allow what the file denies
            raise UsageError(
                f"setting policy (from {origin}): it is empty. Unset it, or write {{}} to allow everything."
            )
        value = _json_object(value, "policy", origin)
    declared_policy(value, origin)
    return dict(value)


def _json_object(text: str, name: str, origin: str) -> dict[str, Any]:
    from clicket.model.arguments import parse_arguments

    try:
        return parse_arguments(text, max_size=1024 * 1024)
    except InvalidInput as error:
        raise UsageError(f"setting {name} (from {origin}): {error.message}") from None


def _spend_tables(value: Any, name: str, origin: str) -> Any:
    """Check prices or budgets when they are read, so that an error names its place."""
    from clicket.engine.spend import declared_budgets, declared_prices

    if isinstance(value, str):
        value = _json_list(value, name, origin)
    (declared_prices if name == "prices" else declared_budgets)(value, origin)
    return value


def _json_list(text: str, name: str, origin: str) -> list[Any]:
    try:
        found = msgspec.json.decode(text)
    except msgspec.MsgspecError:
        found = None
    if not isinstance(found, list):
        raise UsageError(f"setting {name} (from {origin}): it is not a list in JSON. Write [] for none.")
    return found


def half_of_memory() -> int | None:
    """Half of the machine's memory: a tool in a child process that uses more is ended before the machine runs out of memory."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (ValueError, OSError):
        return None
