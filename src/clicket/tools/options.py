"""The options of a tool, chosen by its author: one frozen value. A wrong option is refused where the tool is declared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.tools.depends import Group, make_groups
from clicket.tools.rate import Rate, parse_rate
from clicket.tools.reconcile import Reconcile, check_reconcile
from clicket.tools.resources import Resources, make_resources
from clicket.tools.undo import Undo, check_undo

__all__ = ["Breaker", "Isolation", "Options", "Recovery", "make_options"]

Isolation = Literal["auto", "inline", "thread", "process", "ray"]
Recovery = Literal["auto", "rerun", "fail", "ask"]
CacheScope = Literal["caller", "thread"]
Breaker = Literal["thread", "shared"]
"""Whose failures in a row take a tool out of use: those of one thread, or those of all callers together."""

_PROVIDER = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
_CHOICES = (
    ("isolation", get_args(Isolation)),
    ("recovery", get_args(Recovery)),
    ("cache_scope", get_args(CacheScope)),
    ("breaker", get_args(Breaker)),
)


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of `@tool`, with their defaults. Durations are seconds, sizes are bytes."""

    version: str = "1"
    timeout: float | None = 30.0
    idle_timeout: float | None = None
    max_retries: int = 3
    retry_delay: float = 1.0
    retry_on: tuple[type[BaseException], ...] = ()
    idempotent: bool = False
    read_only: bool = False
    recovery: Recovery = "auto"
    reconcile: Reconcile | None = None
    """Asks the outside system whether an attempt had its effect, when its outcome is unknown."""
    undo: Undo | None = None
    """Undoes the effect of a call that completed."""
    external: bool = False
    """The body only begins the work; the call ends when the token of `ctx.pending()` completes or fails it."""
    background: bool = False
    """In an agent's turn the conversation goes on while the call runs; its result enters a later step or turn."""
    isolation: Isolation = "auto"
    resources: Resources | None = None
    """What a body on a Ray cluster needs (isolation="ray")."""
    cache: float | bool | None = None
    cache_scope: CacheScope | None = None
    real_time: bool = False
    time_window: float | None = None
    depends_on: tuple[Group, ...] = ()
    failure_threshold: int = 3
    cooldown: float = 300.0
    breaker: Breaker = "thread"
    permissions: frozenset[str] = frozenset()
    max_concurrency: int | None = None
    rate: Rate | None = None
    credentials: tuple[str, ...] = ()
    """Providers: a call waits until its caller has a credential for each, and the body gets them with `ctx.credential(name)`."""
    labels: frozenset[str] = frozenset()
    max_result_size: int = 1024 * 1024
    sensitive: frozenset[str] = frozenset()
    tags: frozenset[str] = frozenset()

    @property
    def repeatable(self) -> bool:
        """May an attempt whose outcome is unknown be made again without asking?"""
        return self.read_only or self.idempotent

    @property
    def reruns(self) -> bool:
        """Is such an attempt made again without asking? `recovery` decides, and by default whether it may be."""
        return self.recovery == "rerun" or (self.recovery == "auto" and self.repeatable)


def make_options(where: str, given: Mapping[str, Any]) -> Options:
    """Check and normalise options as they were written; `where` names the tool in every error message."""
    known = Options.__struct_fields__
    for key in given:
        if key not in known:
            raise UsageError(f"{where}: unknown option {key!r}.{did_you_mean(key, known)} Known: {', '.join(known)}.")
    values = dict(given)
    _positive(where, values, "timeout", "idle_timeout", "retry_delay", "time_window", "cooldown")
    for key in ("max_retries", "failure_threshold", "max_concurrency", "max_result_size"):
        least = 0 if key == "max_retries" else 1
        value = values.get(key, least)
        if value is None and key == "max_concurrency":
            continue
        if type(value) is not int or value < least:
            raise UsageError(f"{where}: {key} must be a whole number of at least {least}, not {value!r}.")
    for key, choices in _CHOICES:
        if values.get(key) is None:
            values.pop(key, None)
        elif values[key] not in choices:
            raise UsageError(f"{where}: {key} must be one of {', '.join(choices)}, not {values[key]!r}.")
    if values.get("cache") is not True and values.get("cache") is not False:
        _positive(where, values, "cache")
    if isinstance(values.get("sensitive"), bool):
        values["sensitive"] = ["*"] if values["sensitive"] else []
    for key in ("permissions", "sensitive", "tags", "labels"):
        if key in values:
            values[key] = _names(where, key, values[key])
    values["credentials"] = _providers(where, values)
    _check_resources(where, values)
    _check_external(where, values)
    values["reconcile"] = check_reconcile(where, values.get("reconcile"))
    values["undo"] = check_undo(where, values.get("undo"), read_only=values.get("read_only") is True)
    for key, made in (("retry_on", _exceptions), ("depends_on", make_groups), ("version", _text), ("rate", parse_rate)):
        if key in values:
            values[key] = made(where, values[key])
    return Options(**values)


def _providers(where: str, values: Mapping[str, Any]) -> tuple[str, ...]:
    names = _names(where, "credentials", values.get("credentials") or ())
    for name in names:
        if not _PROVIDER.fullmatch(name):
            raise UsageError(
                f"{where}: credentials names {name!r:.100}, which is not a name of a provider: a-z, 0-9, '.', '_' and '-'."
            )
    if names and values.get("isolation") == "ray":
        raise UsageError(f"{where}: a tool with credentials does not run on a Ray cluster, which would keep them.")
    return tuple(sorted(names))


def _check_resources(where: str, values: dict[str, Any]) -> None:
    if values.get("resources") is None:
        return
    if values.get("isolation") != "ray":
        raise UsageError(f"{where}: resources are for tools that run on a Ray cluster: add isolation='ray'.")
    values["resources"] = make_resources(where, values["resources"])


def _check_external(where: str, values: dict[str, Any]) -> None:
    for key in ("external", "background"):
        if type(values.get(key, False)) is not bool:
            raise UsageError(f"{where}: {key} must be True or False, not {values[key]!r}.")
    if values.get("external") and values.get("isolation", "auto") not in ("auto", "thread"):
        raise UsageError(
            f"{where}: the body of an external tool gets its token from the runtime, so isolation={values['isolation']!r} is for other "
            "tools. Leave isolation at 'auto'."
        )


def _positive(where: str, values: Mapping[str, Any], *keys: str) -> None:
    for key in keys:
        value = values.get(key)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            zero_ok = key == "retry_delay" and value == 0 and not isinstance(value, bool)
            if not zero_ok:
                raise UsageError(f"{where}: {key} must be a number of seconds above 0, not {value!r}.")


def _names(where: str, key: str, value: Any) -> frozenset[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple | set | frozenset) or not all(isinstance(n, str) for n in names):
        raise UsageError(f"{where}: {key} must be a name or a list of names, not {value!r}.")
    return frozenset(cast("Sequence[str]", names))


def _text(where: str, value: Any) -> str:
    return str(value)


def _exceptions(where: str, value: Any) -> tuple[type[BaseException], ...]:
    given = value if isinstance(value, list | tuple | set | frozenset) else (value,)
    for item in given:
        if not (isinstance(item, type) and issubclass(item, BaseException)):
            raise UsageError(f"{where}: retry_on takes exception classes, not {item!r}.")
    return tuple(given)
