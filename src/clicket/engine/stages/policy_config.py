"""The table `[policy]` of `clicket.toml`, or of `CLICKET_POLICY`. Every mistake raises when it is read, and the message names its place."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.engine.stages.policy import Policy, Rule
from clicket.engine.stages.rules import Verdict
from clicket.errors import UsageError
from clicket.model.tables import read

__all__ = ["PolicyTable", "declared_policy"]


class PolicyTable(msgspec.Struct, frozen=True, kw_only=True):
    """`deny`, `ask` and `allow` are lists of names of tools, globs, or `tag:NAME`."""

    default: Verdict = "allow"
    """For calls that nothing else matches."""
    rules: tuple[Rule, ...] = ()
    """`[[policy.rules]]`: the first one that matches decides, before the lists."""
    deny: tuple[str, ...] = ()
    """Tools that may not be called."""
    ask: tuple[str, ...] = ()
    """Tools whose calls wait for a person."""
    allow: tuple[str, ...] = ()
    """Tools that may be called."""
    granted: tuple[str, ...] | None = None
    """Permissions that callers have; a caller's scopes unless given."""
    approval_timeout: float | None = 24 * 3600.0
    """Seconds that a person has to decide; `false`: no limit."""
    approvers: int = 1
    """How many different people must approve a call."""
    self_approval: bool = False
    """Callers may approve their own calls."""


def declared_policy(given: Any, where: str) -> Policy:
    """`where` begins the messages of errors."""
    table: PolicyTable = read(PolicyTable, given, where)
    try:
        return Policy(**msgspec.structs.asdict(table))
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}") from None
