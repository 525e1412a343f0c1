"""One operation: a method on a path, the scopes that it needs, what it takes and what it answers. The OpenAPI document is made from
the same table that checks requests, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from clicket.server.parameters import Parameter
from clicket.server.request import Request

__all__ = ["EVENT_STREAM", "Answer", "Body", "Handler", "Operation"]

EVENT_STREAM = "text/event-stream"


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What a request carries. `model` is a Struct for JSON; None is bytes of any kind."""

    model: Any = None
    optional: bool = False


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """`model` is a type for JSON; None has no body, or one of `kind`."""

    about: str
    model: Any = None
    kind: str = "application/json"
    stream: bool = False
    """It comes as server-sent events, too."""
    headers: Mapping[str, str] = {}
    id_at: str = ""
    """The field that holds the id of a call, which other operations take."""


Handler = Callable[[Request], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`scopes`: any of these will do; none at all: any key will do. `public`: no key is needed."""

    method: str
    path: str
    about: str
    handler: Handler
    scopes: tuple[str, ...] = ()
    public: bool = False
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: Mapping[int, Answer] = {}
    problems: tuple[int, ...] = ()
    tag: str = "calls"
    unscoped: Handler | None = None
    """Called first when the key lacks the scopes: it may raise another error than the missing scope."""

    @property
    def head(self) -> bool:
        """Does it answer HEAD, too? Every GET does, unless it is a stream."""
        return self.method == "GET" and not any(answer.kind == EVENT_STREAM for answer in self.answers.values())

    @property
    def name(self) -> str:
        words = [part.strip("{}") for part in self.path.strip("/").replace("-", "_").split("/") if part]
        return "_".join([self.method.lower(), *words]) or self.method.lower()
