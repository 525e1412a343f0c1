"""The HTTP request that arguments make. An argument fills the place it was declared for, and no other.

A path argument stays one segment of the path, a header argument one line, a host argument one host. What cannot be kept
in its place by encoding (dot segments, line breaks) is refused as `InvalidInput`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, cast, get_args
from urllib.parse import quote, unquote, urlsplit

import msgspec

from clicket.errors import InvalidInput, UsageError, did_you_mean
from clicket.model.printable import repr_without

__all__ = ["BodyKind", "Parameter", "Prepared", "UrlTemplate", "check_headers", "declare", "header_safe", "prepare"]

BodyKind = Literal["json", "form", "raw"]
Place = Literal["path", "query", "header", "body"]

_PLACES = get_args(Place)
_WORDS = frozenset({"in", "name", "style", "explode", "whole"})
_STYLES = ("form", "deepObject", "json")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)
_HOST_VALUE = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_UNREADABLE = re.compile(r"[\x00-\x20\x7f\\]")
# The client sets these from the URL and the body; a second value for them would allow request smuggling.
_FRAMING = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
_CONTENT_TYPES = {
    "json": "application/json",
    "form": "application/x-www-form-urlencoded",
    "raw": "text/plain; charset=utf-8",
}
_SENDS_BODY = frozenset({"POST", "PUT", "PATCH"})


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """Where one argument goes. `name` is its name on the wire; a `whole` one is the body itself, not a field of it."""

    argument: str
    place: Place
    name: str
    style: str = "form"
    explode: bool = True
    whole: bool = False
    default: Any = msgspec.UNSET


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A request that is ready to be sent."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None

    def __repr__(self) -> str:
        return repr_without(self, "url", "headers", "content")


class UrlTemplate:
    """A URL with `{name}` in it. `{url}` alone means that the caller names the whole URL."""

    __slots__ = ("_head", "_path", "_query", "host_arguments", "names", "shown", "whole")

    def __init__(self, where: str, text: str) -> None:
        self.names: tuple[str, ...] = tuple(dict.fromkeys(_PLACEHOLDER.findall(text)))
        if "" in self.names:
            raise UsageError(f"{where}: '{{}}' in the url needs a name, like '{{id}}'.")
        self.whole = self.names[0] if _PLACEHOLDER.fullmatch(text) else None
        rest, _, self._query = text.partition("?")
        scheme, slashes, tail = rest.partition("://")
        authority, slash, path = tail.partition("/")
        self._head = f"{scheme}://{authority}"
        self._path = slash + path
        self.host_arguments = frozenset(self.names if self.whole else _PLACEHOLDER.findall(authority))
        self.shown = rest
        """The template without its query, which may hold a key: this is what messages show."""
        if self.whole is None:
            if not slashes or scheme.lower() not in ("http", "https") or not authority:
                raise UsageError(f"{where}: the url must start with http:// or https:// and name a host, not {text!r}.")
            if "@" in authority:
                raise UsageError(f"{where}: no user or password in the url; send them as a header (headers=…).")
            if "#" in text or _UNREADABLE.search(text):
                raise UsageError(f"{where}: the url has a fragment, a space, a backslash or a control character.")

    def expand(self, values: Mapping[str, Any]) -> str:
        if self.whole is not None:
            return _whole_url(self.whole, values[self.whole])
        head = _PLACEHOLDER.sub(lambda m: _host_text(m[1], values[m[1]]), self._head)
        path = _PLACEHOLDER.sub(lambda m: _path_text(m[1], values[m[1]]), self._path)
        for segment in path.split("/"):
            # "{a}{b}" and ".{a}" make dot segments out of harmless values.
            if self._path and unquote(segment) in (".", "..") and segment not in self._path.split("/"):
                raise _refused(self.names[0], f"makes the path segment {segment!r}, which would leave the path")
        query = _PLACEHOLDER.sub(lambda m: _quoted(m[1], _text(values[m[1]])), self._query)
        return f"{head}{path}?{query}" if query else head + path


def _refused(argument: str, message: str) -> InvalidInput:
    return InvalidInput([{"path": f"/{argument}", "message": message}])


def _whole_url(argument: str, value: Any) -> str:
    if not isinstance(value, str) or _UNREADABLE.search(value):
        raise _refused(argument, "must be a URL without spaces, backslashes or control characters")
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _refused(argument, f"is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not host:
        raise _refused(argument, "must start with http:// or https:// and name a host")
    if "@" in parts.netloc:
        raise _refused(argument, "must not carry a user or password")
    return value.partition("#")[0]


def _host_text(argument: str, value: Any) -> str:
    text = _text(value)
    if not _HOST_VALUE.fullmatch(text):
        raise _refused(argument, "is part of a host name: only letters, digits, '.', '-' and '_'")
    return text


def _path_text(argument: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(_path_text(argument, item) for item in value)
    text = _text(value)
    if not text:
        raise _refused(argument, "must not be empty: it is a segment of the path")
    if _CONTROL.search(text):
        raise _refused(argument, "must not hold control characters")
    # Encoding keeps '..' and '/' in place for servers that decode once. Proxies that decode before they route do not
    # care, so dot segments are refused in every depth of encoding.
    layer = text
    for _ in range(4):
        if any(part in (".", "..") for part in re.split(r"[/\\]", layer)):
            raise _refused(argument, "must not hold '.' or '..' as a segment: it would leave its place in the path")
        if (layer := unquote(layer)) == text:
            break
    return _quoted(argument, text)


def _quoted(argument: str, text: str) -> str:
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise _refused(argument, "holds half a character (a lone surrogate)") from None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def header_safe(value: str) -> bool:
    return not _CONTROL.search(value.replace("\t", ""))


def _header_text(argument: str, value: Any) -> str:
    text = ",".join(map(_text, value)) if isinstance(value, list | tuple) else _text(value)
    if not header_safe(text):
        raise _refused(argument, "must not hold line breaks or other control characters: it is sent as a header")
    return text.strip(" \t")


def check_headers(where: str, headers: Mapping[str, str]) -> dict[str, str]:
    """The tool's own headers by lowercase name, or `UsageError`."""
    checked = {}
    for name, value in headers.items():
        _check_header_name(where, name)
        if not isinstance(value, str) or not header_safe(value):
            raise UsageError(f"{where}: the header {name!r} must be text without line breaks.")
        checked[name.lower()] = value.strip(" \t")
    return checked


def _check_header_name(where: str, name: str) -> None:
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise UsageError(f"{where}: {name!r} is not a header name.")
    if name.lower() in _FRAMING or name.lower().startswith("proxy-"):
        raise UsageError(f"{where}: the header {name!r} is set by the client itself; leave it out.")


def declare(
    where: str, method: str, template: UrlTemplate, schemas: Mapping[str, Mapping[str, Any]], body: BodyKind
) -> tuple[tuple[Parameter, ...], dict[str, dict[str, Any]]]:
    """Split the declared parameters into where each one goes and its plain JSON Schema."""
    if body not in get_args(BodyKind):
        raise UsageError(f"{where}: body must be one of {', '.join(get_args(BodyKind))}, not {body!r}.")
    free = {name: {"type": "string"} for name in template.names if name not in schemas}
    declared = [_parameter(where, method, template, name, schema) for name, schema in {**free, **schemas}.items()]
    bodies = [p for p in declared if p.place == "body"]
    if body == "raw":
        declared = [msgspec.structs.replace(p, whole=True) if p.place == "body" else p for p in declared]
    if len(bodies) > 1 and any(p.place == "body" and p.whole for p in declared):
        raise UsageError(f"{where}: only one argument can be the whole body, not {len(bodies)}.")
    if bodies and method in ("GET", "HEAD"):
        raise UsageError(f"{where}: {method} takes no body; declare {bodies[0].argument!r} with 'in': 'query'.")
    plain = {name: {k: v for k, v in schema.items() if k not in _WORDS} for name, schema in {**free, **schemas}.items()}
    return tuple(declared), plain


def _parameter(where: str, method: str, template: UrlTemplate, argument: str, schema: Mapping[str, Any]) -> Parameter:
    if not isinstance(schema, Mapping):
        raise UsageError(f"{where}: the parameter {argument!r} needs a JSON Schema, like {{'type': 'string'}}.")
    in_template = argument in template.names
    usual = "path" if in_template else "query" if method in ("GET", "HEAD", "DELETE", "OPTIONS") else "body"
    place = schema.get("in", usual)
    if place not in _PLACES:
        hint = did_you_mean(str(place), _PLACES)
        raise UsageError(f"{where}: {argument!r} has 'in': {place!r}; it must be one of {', '.join(_PLACES)}.{hint}")
    if (place == "path") != in_template:
        problem = f"'{{{argument}}}' is not in the url" if place == "path" else f"'{{{argument}}}' is in the url"
        raise UsageError(f"{where}: {argument!r} is declared with 'in': {place!r}, but {problem}.")
    style = schema.get("style", "form")
    if style not in _STYLES:
        raise UsageError(f"{where}: {argument!r} has the style {style!r}; known are {', '.join(_STYLES)}.")
    name = schema.get("name", argument)
    if place == "header":
        _check_header_name(where, name)
    default = schema.get("default", msgspec.UNSET) if place != "body" else msgspec.UNSET
    return Parameter(
        argument=argument,
        place=cast("Place", place),
        name=name,
        style=style,
        explode=bool(schema.get("explode", True)),
        whole=bool(schema.get("whole", False)),
        default=default,
    )


def prepare(
    method: str,
    template: UrlTemplate,
    parameters: Iterable[Parameter],
    headers: Mapping[str, str],
    body: BodyKind,
    arguments: Mapping[str, Any],
) -> Prepared:
    """The request that these arguments make, or `InvalidInput`. Pure: nothing is looked up or opened.

    Absent arguments take their default, except in the body, where absent and default may mean different things (PATCH).
    """
    given: dict[str, list[tuple[Parameter, Any]]] = {place: [] for place in _PLACES}
    declared_body = False
    for parameter in parameters:
        declared_body = declared_body or parameter.place == "body"
        value = arguments.get(parameter.argument, parameter.default)
        if value is msgspec.UNSET or (value is None and parameter.place in ("query", "header")):
            continue
        given[parameter.place].append((parameter, value))
    values = {p.argument: value for p, value in given["path"]}
    for name in template.names:
        if values.get(name) is None:
            raise _refused(name, "is needed: it is part of the URL")
    url = template.expand(values)
    query = "&".join(f"{_quoted(p.argument, k)}={_quoted(p.argument, v)}" for p, k, v in _pairs(given["query"]))
    if query:
        url += ("&" if "?" in url else "?") + query
    sent = dict(headers)
    for parameter, value in given["header"]:
        sent[parameter.name.lower()] = _header_text(parameter.argument, value)
    content = _content(body, given["body"], empty=declared_body and method in _SENDS_BODY)
    if content is not None:
        sent.setdefault("content-type", _CONTENT_TYPES[body])
    return Prepared(method=method, url=url, headers=sent, content=content)


def _pairs(given: Iterable[tuple[Parameter, Any]]) -> Iterator[tuple[Parameter, str, str]]:
    for p, value in given:
        if p.style == "json":
            yield p, p.name, _text(value)
        elif isinstance(value, list | tuple):
            if p.explode:
                yield from ((p, p.name, _text(item)) for item in value)
            else:
                yield p, p.name, ",".join(map(_text, value))
        elif isinstance(value, dict):
            shape = f"{p.name}[%s]" if p.style == "deepObject" else "%s"
            yield from ((p, shape.replace("%s", str(k)), _text(v)) for k, v in value.items() if v is not None)
        else:
            yield p, p.name, _text(value)


def _content(body: BodyKind, given: list[tuple[Parameter, Any]], *, empty: bool) -> bytes | None:
    if not given and not (empty and body == "json"):
        return None
    whole = given[0][1] if given and given[0][0].whole else msgspec.UNSET
    try:
        if body == "form":
            return "&".join(f"{_quoted(p.argument, k)}={_quoted(p.argument, v)}" for p, k, v in _pairs(given)).encode()
        if body == "raw":
            return _text(whole).encode()
        fields = whole if whole is not msgspec.UNSET else {p.name: value for p, value in given}
        return json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except (UnicodeEncodeError, ValueError, TypeError, RecursionError) as error:
        raise InvalidInput(f"the body cannot be written as {body}: {error}") from None
