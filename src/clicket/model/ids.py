"""Ids that sort by time and cannot be guessed; and ids of calls that a model asked for.

Such an id is `toolu_01AbC:react.1.2.1~3f9c12ab`: the provider's own id, a short name that is unique in its thread (agent, turn, step,
place), and a tag that makes it unique in the store. A call is found by the whole, by the provider's id and by the short name.

A program's use of a tool is a call with the id of the program's call and a number: `ID.u3`, `react.1.2.1.u3~3f9c12ab`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha256

from clicket import system

__all__ = [
    "agent_of",
    "alias_of",
    "asked_id",
    "is_alias",
    "is_of_turn",
    "is_use_of",
    "new_id",
    "program_of",
    "provider_of",
    "provider_prefix",
    "use_id",
]

_USE = re.compile(r"\.u([0-9]{1,9})(?:~[^~]*)?\Z")
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_ALIAS = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)+\.\d+\.\d+(\.u\d+)*")
_MAX_PROVIDER = 64
_MAX_PARENT = 480


def _generator() -> Callable[[], str]:
    millisecond, prefix = 0, ""

    def generate() -> str:
        nonlocal millisecond, prefix
        here = system.current()
        now = int(here.now() * 1000)
        if now != millisecond:
            prefix = f"{now:012x}"
            millisecond = now
        try:
            return prefix + here.digits.pop()
        except IndexError:
            return prefix + here.more_digits()

    return generate


new_id = _generator()


def asked_id(provider: str, alias: str, tag: str) -> str:
    """The id of a call that a model asked for under the provider's id `provider`."""
    return f"{provider_prefix(provider)}{alias}~{tag}"


def provider_prefix(provider: str) -> str:
    """How the ids of calls begin that a provider knows by this id."""
    return f"{_UNSAFE.sub('-', provider)[:_MAX_PROVIDER]}:" if provider else ""


def provider_of(id: str) -> str:
    """The provider's id that a call's id begins with; empty if there is none."""
    provider, sign, rest = id.partition(":")
    return provider if sign and ("~" in rest or rest.startswith("response-")) else ""


def alias_of(id: str) -> str:
    """The short name of an agent's call; of another call its id."""
    return id.rpartition(":")[2].partition("~")[0] if "~" in id else id


def is_alias(id: str) -> bool:
    """Could this be the short name of an agent's call?"""
    return _ALIAS.fullmatch(id) is not None


def agent_of(id: str) -> str:
    """The agent whose tool call it is; empty: it is not a call of an agent."""
    alias = alias_of(id) if "~" in id else ""
    return alias.partition(".")[0] if is_alias(alias) else ""


def is_of_turn(id: str, mark: str) -> bool:
    """Is it the id of a tool call of the turn `mark`?"""
    return alias_of(id).startswith(f"{mark}.")


def use_id(parent: str, number: int) -> str:
    """The id of the call that a program makes as its use `number` of a tool; `parent` is the id of the program's call."""
    if len(parent) > _MAX_PARENT:
        parent = sha256(parent.encode("utf-8", "surrogatepass")).hexdigest()
    tag = parent.rpartition("~")[2] if "~" in parent else ""
    return f"{alias_of(parent)}.u{number}~{tag}" if tag else f"{parent}.u{number}"


def program_of(alias: str) -> str:
    """The short name of the call of an agent that a use is part of, through all programs between; of another call its own."""
    while True:
        program, _, use = alias.rpartition(".")
        if not (use.startswith("u") and use[1:].isdigit()):
            return alias
        alias = program


def is_use_of(id: str, parent: str) -> bool:
    """Is it the id of a use of a tool by the program whose call is `parent`?"""
    found = _USE.search(id)
    return found is not None and use_id(parent, int(found[1])) == id
