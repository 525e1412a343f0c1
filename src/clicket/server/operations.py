"""One operation: a method on a path, who may do it, what it takes and what it answers. The OpenAPI document is drawn from the
same table that checks requests, so it cannot say anything else than what is done.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qsl, unquote

import msgspec

from clicket.errors import ClicketError, did_you_mean
from clicket.server.problems import Refused, problem_of_error
from clicket.server.replies import Reply

if TYPE_CHECKING:
    from clicket.server.auth import Principal
    from clicket.server.context import Context

__all__ = ["EVENT_STREAM", "Answer", "Asked", "Body", "Endpoint", "Operation", "Parameter"]

logger = logging.getLogger("clicket.server")
_MAX_VALUE = 1_024
_MAX_PARAMETERS = 32
EVENT_STREAM = "text/event-stream"


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A query parameter or a header. Text unless told otherwise; bounds are those of the kind."""

    name: str
    about: str
    kind: Literal["text", "integer", "number", "boolean"] = "text"
    place: Literal["query", "header"] = "query"
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    max_length: int = 512
    min_length: int = 1
    pattern: str = ""
    """Of text; `wanted` says it in words."""
    wanted: str = ""
    schema: dict[str, Any] | None = None
    """What the document says of it instead."""

    def parse(self, text: str) -> Any:
        """The value, or `ValueError` with what it must be."""
        if self.kind == "boolean":
            if text not in ("true", "false"):
                raise ValueError("true or false")
            return text == "true"
        if self.kind == "text":
            if not self.min_length <= len(text) <= self.max_length or "\x00" in text:
                raise ValueError(f"text of {self.min_length} to {self.max_length} characters without NUL")
            if self.choices and text not in self.choices:
                raise ValueError(f"one of {', '.join(self.choices)}")
            if self.pattern and not re.search(self.pattern, text):
                raise ValueError(self.wanted)
            return text
        return self._number(text)

    def _number(self, text: str) -> float:
        kind = "a whole number" if self.kind == "integer" else "a number"
        bounds = (
            f"{kind} from {self.least:g} to {self.most:g}" if self.least is not None and self.most is not None else kind
        )
        if not text or len(text) > 32 or text.strip() != text or "_" in text or not text.isascii():
            raise ValueError(bounds)
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise ValueError(bounds) from None
        if not (self.least is None or value >= self.least) or not (self.most is None or value <= self.most):
            raise ValueError(bounds)
        return value


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


Handler = Callable[["Asked"], Awaitable[Any]]


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
    """Asked first when the key lacks the scopes: it may raise what is to be said instead."""

    @property
    def head(self) -> bool:
        """Is it there for HEAD, too? Whatever is got is, unless it never ends."""
        return self.method == "GET" and not any(answer.kind == EVENT_STREAM for answer in self.answers.values())

    @property
    def name(self) -> str:
        words = [part.strip("{}") for part in self.path.strip("/").replace("-", "_").split("/") if part]
        return "_".join([self.method.lower(), *words]) or self.method.lower()


class Asked:
    """A request to one operation."""

    __slots__ = ("_query", "context", "headers", "operation", "receive", "scope", "send", "who")

    def __init__(self, operation: Operation, context: Context, scope: Any, receive: Any, send: Any) -> None:
        self.operation = operation
        self.context = context
        self.scope = scope
        self.receive = receive
        self.send = send
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.who: Principal = scope["clicket.who"]
        self._query: dict[str, Any] | None = None

    def header(self, name: bytes) -> str | None:
        """A header that may be there once."""
        found = [value for key, value in self.headers if key == name]
        if len(found) > 1:
            raise Refused("usage", f"the header {name.decode()} is there {len(found)} times. Send it once.")
        return found[0].decode("latin-1") if found else None

    def path(self, name: str) -> str:
        value: str = self.scope["path_params"][name]
        return unquote(value) if self.scope.get("clicket.quoted") else value

    def query(self, name: str, default: Any = None) -> Any:
        if self._query is None:
            self._query = self._parse_query()
        return self._query.get(name, default)

    def check_query(self) -> None:
        """Refuse what the operation does not know, also where the handler asks for nothing."""
        if self._query is None:
            self._query = self._parse_query()

    def _parse_query(self) -> dict[str, Any]:
        text: bytes = self.scope["query_string"]
        if not text:
            return {}
        known = {each.name: each for each in self.operation.parameters if each.place == "query"}
        try:
            pairs = parse_qsl(
                text.decode("ascii"), keep_blank_values=True, max_num_fields=_MAX_PARAMETERS, errors="strict"
            )
        except (ValueError, UnicodeError):
            raise Refused(
                "invalid_query", "the query cannot be read. Write it as name=value&name=value, in UTF-8."
            ) from None
        values: dict[str, Any] = {}
        for name, value in pairs:
            parameter = known.get(name)
            if parameter is None:
                names = f" Known: {', '.join(known)}." if known else " This route takes none."
                raise Refused(
                    "invalid_query", f"there is no parameter {name!r:.100}.{did_you_mean(name, known)}{names}"
                )
            if name in values:
                raise Refused("invalid_query", f"the parameter {name} is there twice. Send it once.")
            try:
                values[name] = parameter.parse(value)
            except ValueError as wanted:
                raise Refused("invalid_query", f"{name} must be {wanted}, not {value[:100]!r}.") from None
        return values


class Endpoint:
    """An operation as the router calls it: checks the scope, and turns whatever is raised into a problem."""

    def __init__(self, operation: Operation, context: Context) -> None:
        self.operation = operation
        self.context = context
        self._scopes = frozenset(operation.scopes) | {"admin"}
        self._open = operation.public or not operation.scopes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        operation = self.operation
        scope["clicket.route"] = operation.path
        try:
            asked = Asked(operation, self.context, scope, receive, send)
            may = self._open or bool(self._scopes & asked.who.scopes)
            if scope["query_string"] and (may or operation.unscoped is not None):
                asked.check_query()
            if may:
                reply: Any = await operation.handler(asked)
            else:
                if operation.unscoped is not None:
                    await operation.unscoped(asked)
                reply = self._refusal()
        except ClicketError as error:
            reply = self._problem(error)
        except Exception:
            if scope.get("clicket.started"):
                raise
            logger.exception("%s %s failed", operation.method, operation.path)
            reply = problem_of_error(Refused("internal", "the server failed on this request; its log says how."))
        await reply(scope, receive, send)

    def _refusal(self) -> Reply:
        wanted = " or ".join(self.operation.scopes)
        return problem_of_error(Refused("missing_scope", f"the key lacks the scope {wanted}. Use one that has it."))

    def _problem(self, error: ClicketError) -> Reply:
        reply = problem_of_error(error)
        if reply.status >= 500 and reply.status != 503:
            logger.error("%s %s failed", self.operation.method, self.operation.path, exc_info=error)
        if self.context.draining and error.code in ("usage", "closed"):
            return problem_of_error(Refused("shutting_down", "the server is shutting down. Try again in a moment."))
        return reply
