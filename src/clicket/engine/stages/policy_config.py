"""Reads a policy from `clicket.toml` or `CLICKET_POLICY`. Every mistake raises when it is read, and the message names its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clicket.engine.stages.policy import Policy, Rule
from clicket.engine.stages.rules import Condition
from clicket.errors import UsageError, did_you_mean

__all__ = ["declared_policy"]

_KNOWN = ("default", "rules", "deny", "ask", "allow", "granted", "approval_timeout", "approvers", "self_approval")
_RULE = Rule.__struct_fields__
_CONDITION = Condition.__struct_fields__


def declared_policy(given: Any, where: str) -> Policy:
    """`where` names the file or variable that it was read from. `approval_timeout = false`: no limit."""
    table = _table(given, _KNOWN, f"{where}: policy")
    rules = table.pop("rules", [])
    if not isinstance(rules, list | tuple):
        raise UsageError(
            f"{where}: policy: rules must be a list of tables. In TOML, write [[policy.rules]] before each."
        )
    made = [_rule(rule, f"{where}: policy rule {number}") for number, rule in enumerate(rules, start=1)]
    if table.get("approval_timeout") is False:
        table["approval_timeout"] = None
    try:
        return Policy(rules=made, **table)
    except UsageError as error:
        raise UsageError(f"{where}: policy: {error.message}") from None


def _rule(given: Any, where: str) -> Rule:
    table = _table(given, _RULE, where)
    if "verdict" not in table:
        raise UsageError(f"{where}: it has no verdict. Add verdict = 'allow', 'deny' or 'ask'.")
    conditions = table.pop("when", [])
    if not isinstance(conditions, list | tuple):
        raise UsageError(f'{where}: when must be a list of tables like {{ path = "/amount", op = ">", value = 100 }}.')
    when = [_condition(each, f"{where}, condition {number}") for number, each in enumerate(conditions, start=1)]
    try:
        return Rule(when=tuple(when), **table)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None


def _condition(given: Any, where: str) -> Condition:
    table = _table(given, _CONDITION, where)
    if "path" not in table:
        raise UsageError(f'{where}: it has no path. Add one, like path = "/amount".')
    try:
        return Condition(**table)
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None


def _table(given: Any, known: tuple[str, ...], where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise UsageError(f"{where} must be a table, not {given!r}. Known keys: {', '.join(known)}.")
    for name in given:
        if name not in known:
            raise UsageError(
                f"{where}: unknown key {name!r}.{did_you_mean(str(name), known)} Known: {', '.join(known)}."
            )
    return dict(given)
