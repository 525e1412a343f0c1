"""What an agent is on record. An agent is its name on one store; its digest says what it may do: its kind, its tools and its limits.

The entry `Begun` of a turn has all of it. After a crash an agent of the same name and digest continues the turn. One with another digest
continues it with the recorded instructions, and with the tools that both may use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from clicket.agents.entries import OfAgent
from clicket.agents.run_options import NO_OPTIONS, RunOptions
from clicket.agents.turn_limits import Limits
from clicket.model.codec import canonical
from clicket.safety.vault import MASK

__all__ = ["Identity", "both"]

_DIGEST = 16
_MAX_NAMED = 50
_OF_TURN = frozenset({*Limits.__struct_fields__, "max_handoffs"})
"""Bounds of a whole turn: they are those of the agent that began it, also after a handoff."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """`tools`: names of the tools that it may use; None: all that the hub offers. `system` and `model` are what it uses, not what it may
    do: they are no part of the digest."""

    name: str
    kind: str
    tools: frozenset[str] | None
    limits: dict[str, Any]
    system: str = ""
    model: str = ""
    digest: str = ""
    middleware: tuple[str, ...] = ()
    output: dict[str, Any] = {}
    """The JSON Schema of its answers."""
    handoffs: tuple[str, ...] = ()
    """Names of the agents that it may hand to, with what they read if that is not all."""
    undo_on: tuple[str, ...] = ()
    """After which ends of a turn its calls are undone."""

    @classmethod
    def of(
        cls,
        *,
        name: str,
        kind: str,
        tools: frozenset[str] | None,
        limits: Mapping[str, Any],
        system: str = "",
        model: str = "",
        middleware: tuple[str, ...] = (),
        output: Mapping[str, Any] | None = None,
        handoffs: Iterable[str] = (),
        undo_on: tuple[str, ...] = (),
    ) -> Identity:
        bounds = _bounds(limits)
        may: dict[str, Any] = {"kind": kind, "tools": None if tools is None else sorted(tools), "limits": bounds}
        if middleware:
            may["middleware"] = middleware
        if output:
            may["output"] = output
        if hands := tuple(sorted(handoffs)):
            may["handoffs"] = hands
        if undo_on:
            may["undo_on"] = undo_on
        digest = sha256(canonical(may)).hexdigest()[:_DIGEST]
        return cls(
            name=name,
            kind=kind,
            tools=tools,
            limits=bounds,
            system=system,
            model=model,
            digest=digest,
            middleware=middleware,
            output=dict(output or {}),
            handoffs=hands,
            undo_on=undo_on,
        )

    def for_run(self, options: RunOptions) -> Identity:
        """The agent as one run uses it. It may do no more, so its digest is the same."""
        if options == NO_OPTIONS:
            return self
        return msgspec.structs.replace(
            self,
            tools=both(None if options.tools is None else frozenset(options.tools), self.tools),
            limits=self.limits if options.limits is None else self._with(options.limits),
            system=self.system if options.system is None else options.system,
            model=options.model or self.model,
            output=options.output or self.output,
        )

    def _with(self, limits: Limits) -> dict[str, Any]:
        others = {name: bound for name, bound in self.limits.items() if name not in Limits.__struct_fields__}
        return {**_bounds(msgspec.to_builtins(limits)), **others}

    def limits_of_turn(self) -> Limits:
        """The recorded ones. They hold to the end of the turn: its recorded calls are counted again after a crash."""
        return msgspec.convert({name: self.limits.get(name) for name in Limits.__struct_fields__}, Limits)

    def as_handed(self) -> Identity:
        """Without the bounds that do not hold in a turn of another agent."""
        own = {name: bound for name, bound in self.limits.items() if name not in _OF_TURN}
        return msgspec.structs.replace(self, limits=own)

    def on_record(self) -> dict[str, Any]:
        """As fields of the entries `Begun` and `HandedOver`."""
        tools = None if self.tools is None else sorted(self.tools)
        return {
            "agent": self.name,
            "kind": self.kind,
            "tools": tools,
            "limits": self.limits,
            "system": self.system,
            "model": self.model,
            "digest": self.digest,
            "middleware": list(self.middleware),
            "output": self.output,
            "handoffs": list(self.handoffs),
            "undo_on": list(self.undo_on),
        }

    @classmethod
    def in_entry(cls, begun: OfAgent) -> Identity:
        """The identity that an entry has on record."""
        tools = None if begun.tools is None else frozenset(begun.tools)
        return cls(
            name=begun.agent,
            kind=begun.kind,
            tools=tools,
            limits=begun.limits,
            system=begun.system,
            model=begun.model,
            digest=begun.digest,
            middleware=tuple(begun.middleware),
            output=begun.output,
            handoffs=tuple(begun.handoffs),
            undo_on=tuple(begun.undo_on),
        )

    def system_in_place_of(self, present: str) -> str | None:
        """The recorded instructions, if they are not the present ones; None also if they hold a secret that is masked here."""
        return None if self.system == present or MASK in self.system else self.system

    def changes_to(self, present: Identity) -> dict[str, Any]:
        """What differs between the recorded agent and the present one, for the entry `Changed`."""
        what: dict[str, Any] = {}
        if self.kind != present.kind:
            what["kind"] = [self.kind, present.kind]
        if self.tools != present.tools:
            what["tools"] = _difference(self.tools, present.tools)
        limits = {
            name: [self.limits.get(name), present.limits.get(name)]
            for name in sorted({*self.limits, *present.limits})
            if self.limits.get(name) != present.limits.get(name)
        }
        if limits:
            what["limits"] = limits
        if self.middleware != present.middleware:
            what["middleware"] = [list(self.middleware), list(present.middleware)]
        if self.handoffs != present.handoffs:
            what["handoffs"] = [list(self.handoffs), list(present.handoffs)]
        if self.undo_on != present.undo_on:
            what["undo_on"] = [list(self.undo_on), list(present.undo_on)]
        if self.output != present.output:
            what["output"] = "the recorded type is used"
        if self.model != present.model:
            what["model"] = [self.model, present.model]
        if self.system_in_place_of(present.system) is not None:
            what["system"] = "the recorded text is used"
        return what


def _bounds(limits: Mapping[str, Any]) -> dict[str, Any]:
    return {each: bound for each, bound in limits.items() if bound is not None}


def both(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    """The names that are in both; None is all names."""
    return other if one is None else one if other is None else one & other


def _difference(before: frozenset[str] | None, now: frozenset[str] | None) -> dict[str, Any]:
    if before is None or now is None:
        return {"before": _named(before), "now": _named(now)}
    return {"gone": _named(before - now), "new": _named(now - before)}


def _named(names: Iterable[str] | None) -> Sequence[str]:
    return "all" if names is None else sorted(names)[:_MAX_NAMED]
