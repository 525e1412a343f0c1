"""What middleware has decided in a turn, as it is on record, and what follows from it for the next request."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from clicket.agents.chain import Method
from clicket.agents.identity import both
from clicket.agents.turn_record import Place
from clicket.agents.verdicts import Edit, verdict_in
from clicket.model.chat import ChatMessage, ChatRequest

__all__ = ["Decisions"]

T = TypeVar("T")


class Decisions:
    """Of one turn or branch. `begins`: the index of the turn's first message."""

    __slots__ = ("_begins", "_dropped", "_edits", "_known", "are_new", "brought", "hidden", "narrowed")

    def __init__(self, recorded: Mapping[Place, Any], begins: int) -> None:
        self._known: dict[Place, Any] = dict(recorded)
        self._begins = begins
        self._dropped: set[str] = set()
        self._edits: defaultdict[int, list[Edit]] = defaultdict(list)
        """On record, of requests that this process has not come to yet, by step."""
        for (step, on, _, _), value in recorded.items():
            edit = verdict_in(value) if on == "before_model" else None
            if isinstance(edit, Edit):
                self._edits[step].append(edit)
        self.are_new: bool = False
        """Some may not be durable yet: the model must not see what follows from them."""
        self.brought: dict[str, str] = {}
        """The tools that middleware brings: by the names that models know, those under which they are registered."""
        self.hidden: frozenset[int] = frozenset()
        """Places of messages that the agent does not read."""
        self.narrowed: frozenset[str] | None = None
        """Names of the tools that middleware left in the last request; None: all that were offered."""

    def of(self, method: Method, step: int, use: str = "") -> Any:
        """None: nothing is on record."""
        return self._known.get((step, method.on, method.by, use))

    def last(self, method: str, middleware: str, default: T) -> T:
        """The last decision of a method, of any step; `default` if there is none."""
        found = default
        for (_, on, by, _), value in self._known.items():
            if on == method and by == middleware:
                found = value
        return found

    def note(self, method: Method, step: int, use: str, value: Any) -> None:
        self._known[step, method.on, method.by, use] = value
        self.are_new = True

    def begin_step(self, step: int) -> Iterable[Edit]:
        """The edits on record of its request, which were not applied yet."""
        self.narrowed = None
        return self._edits.pop(step, ()) if self._edits else ()

    def take(self, edit: Edit) -> None:
        self._dropped.update(edit.drop)
        if edit.tools is not None:
            self.narrowed = both(frozenset(edit.tools), self.narrowed)

    def shown(self, messages: Sequence[ChatMessage]) -> tuple[ChatMessage, ...]:
        """The messages that the next request has."""
        if not self._dropped and not self.hidden:
            return tuple(messages)
        dropped = [self._id_of(place) in self._dropped or place in self.hidden for place in range(len(messages))]
        alone = {message.use_id for message, is_dropped in zip(messages, dropped, strict=True) if is_dropped}
        shown: list[ChatMessage] = []
        left_out: set[str] = set()
        for message, is_dropped in zip(messages, dropped, strict=True):
            if message.uses and (is_dropped or any(use.id in alone for use in message.uses)):
                left_out.update(use.id for use in message.uses)  # with their results
            elif not is_dropped and message.use_id not in left_out:
                shown.append(message)
        return tuple(shown)

    def _id_of(self, place: int) -> str:
        """Of a message: its place, counted from the turn's first one, so that it is the same after a crash."""
        return str(place - self._begins)

    def with_ids(self, request: ChatRequest, messages: Sequence[ChatMessage]) -> ChatRequest:
        """The request with ids in the turn's messages; the instructions have none."""
        ids = {id(message): self._id_of(place) for place, message in enumerate(messages)}
        named = tuple(msgspec.structs.replace(message, id=ids.get(id(message), "")) for message in request.messages)
        return msgspec.structs.replace(request, messages=named)
