"""Who may run what: allow, deny or ask. The first rule that matches decides; without rules everything is allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

import msgspec

from clicket.errors import UsageError

__all__ = ["Policy", "Request", "Verdict"]

Verdict = Literal["allow", "deny", "ask"]
_VERDICTS = get_args(Verdict)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule may look at. `arguments` are the caller's, unchecked: treat them as untrusted."""

    tool: str
    thread: str
    caller: str
    tags: frozenset[str]
    permissions: frozenset[str]
    arguments: Any


Rule = Callable[[Request], Verdict | None]


class Policy:
    """`Policy(deny=["rm_*"], ask=["pay"])` matches tools by name or `tag:NAME`; `rule` is a function with the first word.

    `granted` are the permissions that callers of this runtime have; a tool that names others is denied.
    """

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        ask: Iterable[str] = (),
        default: Verdict = "allow",
        rule: Rule | None = None,
        granted: Iterable[str] | None = None,
        approval_timeout: float | None = 24 * 3600.0,
    ) -> None:
        if default not in _VERDICTS:
            raise UsageError(f"a policy's default must be one of {', '.join(_VERDICTS)}, not {default!r}.")
        self._patterns: Mapping[Verdict, tuple[str, ...]] = {
            "deny": tuple(deny),
            "ask": tuple(ask),
            "allow": tuple(allow),
        }
        self._default: Verdict = default
        self._rule = rule
        self._granted = None if granted is None else frozenset(granted)
        self.approval_timeout: float | None = approval_timeout
        self.is_open: bool = (
            not any(self._patterns.values()) and default == "allow" and rule is None and granted is None
        )

    def decide(self, request: Request) -> tuple[Verdict, str]:
        """The verdict and its reason."""
        if self._granted is not None and not request.permissions <= self._granted:
            missing = ", ".join(sorted(request.permissions - self._granted))
            return "deny", f"the permission {missing} is not granted"
        if self._rule is not None:
            told = self._rule(request)
            if told is not None:
                if told not in _VERDICTS:
                    return "deny", f"the policy's rule answered {told!r}, which is neither allow, deny nor ask"
                return told, "the policy's rule says so"
        names = (request.tool, *(f"tag:{tag}" for tag in request.tags))
        for verdict, patterns in self._patterns.items():
            for pattern in patterns:
                if any(fnmatchcase(name, pattern) for name in names):
                    return verdict, f"it matches {verdict} = {pattern!r}"
        return self._default, "it is the policy's default"
