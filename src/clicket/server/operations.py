"""What an operation is: its route, the scopes that it needs, its parameters, body and responses.

The server checks requests against the same operations from which it makes the OpenAPI document, so the two cannot differ.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

import msgspec

from clicket.model.scopes import SCOPES
from clicket.server.parameters import Parameter
from clicket.server.request import Request

__all__ = ["ANY_SCOPE", "EVENT_STREAM", "BodySpec", "Handler", "Operation", "PublicPaths", "ResponseSpec", "tagged"]

EVENT_STREAM = "text/event-stream"
ANY_SCOPE: tuple[str, ...] = tuple(SCOPES)
"""For operations that every key may use."""
_NAME = re.compile(r"\{\w+\}")


class BodySpec(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a request. `schema` is a Struct for JSON; None: bytes of any type."""

    schema: Any = None
    optional: bool = False


class ResponseSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One response. `schema` is a type for JSON; None: a body of `media_type`, or no body if that is empty."""

    description: str
    schema: Any = None
    media_type: str = "application/json"
    or_schema: Any = None
    """Another type, with which the response is if the client asks for it."""
    also: str = ""
    """Another media type that the client may ask for."""
    stream: bool = False
    """The client may also get server-sent events."""
    events: Any = None
    """The type of the `data` of server-sent events."""
    headers: Mapping[str, str] = {}
    id_at: str = ""
    """The field that holds the id of a call, for links to other operations."""


Handler = Callable[[Request], Awaitable[Any]]


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """`scopes`: a key needs one of them. `public`: no key is needed; the request has no scope, and acts for no caller. An operation is
    one or the other."""

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

    def __post_init__(self) -> None:
        if self.public is bool(self.scopes):
            raise ValueError(
                f"{self.route}: an operation either is public or names the scopes of which a key needs one"
            )

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


class PublicPaths:
    """The paths of a table of operations that need no key. Every other request is authenticated first, also one to a path that does not
    exist. A path is public for all methods, so that a wrong one is answered with those that it takes."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        table = tuple(operations)
        paths = {operation.path for operation in table if operation.public}
        for operation in table:
            if operation.path in paths and not operation.public:
                raise ValueError(f"{operation.route}: its path is public for another method")
        self._fixed = frozenset(path for path in paths if "{" not in path)
        self._patterns: dict[str, list[re.Pattern[str]]] = {}
        """By the first segment of the path: most requests are compared with none."""
        for path in sorted(paths - self._fixed):
            parts = [re.escape(part) for part in _NAME.split(path)]
            self._patterns.setdefault(_first_segment(path), []).append(re.compile("[^/]+".join(parts)))

    def __contains__(self, path: str) -> bool:
        if path in self._fixed:
            return True
        patterns = self._patterns.get(_first_segment(path))
        return patterns is not None and any(pattern.fullmatch(path) for pattern in patterns)


def _first_segment(path: str) -> str:
    return path.split("/", 2)[1] if path.startswith("/") else ""
