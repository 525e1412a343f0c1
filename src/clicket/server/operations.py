"""What an operation is: its route, the scopes that it needs, its parameters, body and responses.

The server checks requests against the same operations from which it makes the OpenAPI document, so the two cannot differ.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from clicket.server.parameters import Parameter
from clicket.server.request import Request

__all__ = ["EVENT_STREAM", "BodySpec", "Handler", "Operation", "ResponseSpec", "tagged"]

EVENT_STREAM = "text/event-stream"


class BodySpec(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request. `model` is a Struct for JSON; None: bytes of any type."""

    model: Any = None
    optional: bool = False


class ResponseSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One response. `model` is a type for JSON; None: a body of `media_type`, or no body if that is empty."""

    description: str
    model: Any = None
    media_type: str = "application/json"
    also: str = ""
    """Another media type that the client may ask for."""
    stream: bool = False
    """The client may also get server-sent events."""
    headers: Mapping[str, str] = {}
    id_at: str = ""
    """The field that holds the id of a call, for links to other operations."""


Handler = Callable[[Request], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`scopes`: a key needs one of them; empty: any key. `public`: no key is needed."""

    route: str
    """Method and path: `GET /calls/{id}`."""
    description: str
    handler: Handler
    scopes: tuple[str, ...] = ()
    public: bool = False
    parameters: tuple[Parameter, ...] = ()
    body: BodySpec | None = None
    responses: Mapping[int, ResponseSpec] = {}
    problems: tuple[int, ...] = ()
    tag: str = "calls"
    any_query: bool = False
    """Another system writes the query: the handler reads it, and parameters that are not declared are ignored."""
    unscoped: Handler | None = None
    """Called first when the key lacks the scopes: it may raise another error than the missing scope."""

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def head(self) -> bool:
        """Every GET also answers HEAD, unless it is a stream."""
        return self.method == "GET" and not any(each.media_type == EVENT_STREAM for each in self.responses.values())

    @property
    def name(self) -> str:
        names = [part.strip("{}.") for part in self.path.strip("/").replace("-", "_").split("/") if part]
        return "_".join([self.method.lower(), *names]) or self.method.lower()


def tagged(tag: str, *operations: Operation) -> tuple[Operation, ...]:
    """Operations that the OpenAPI document shows as one group."""
    return tuple(msgspec.structs.replace(operation, tag=tag) for operation in operations)
