"""One query to a search service as a tool: `{query, k}` in, documents out. The API key is in the HTTP request and nowhere else.

The call's record holds the query and the documents. A response that cannot be read (a web page instead of JSON, half of a JSON
text, nothing at all) is a failure with its reason, never an empty list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from clicket.errors import ClicketError, RetryableError, UsageError
from clicket.model.document import Document
from clicket.model.printable import repr_without
from clicket.model.version import version
from clicket.safety.certificates import load_ssl_context
from clicket.search.extract.html import plain_text
from clicket.search.web.json_path import JsonPath
from clicket.search.web.rate import Rate
from clicket.search.web.result_fields import Fields
from clicket.tools import ToolContext
from clicket.tools.defaults import ToolDefaults
from clicket.tools.options import Options, make_options
from clicket.tools.rest import RestTool

__all__ = ["AnswerUnusable", "RequestTemplate", "SearchTool"]

_PLACEHOLDER = re.compile(r"\{(query|k|key)\}")
_MAX_ANSWER = 8 * 1024 * 1024
_HIDDEN = "***"
_MARKUP = re.compile(r"<[a-zA-Z!/]")


class AnswerUnusable(ClicketError):
    """The service answered, but its answer cannot be used."""

    code = "tool_error"
    retryable = False


class RequestTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """The request to a service, and where in its response the results are. `{query}`, `{k}` and `{key}` are filled in."""

    url: str
    method: str = "GET"
    params: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    body: Any = None
    results: JsonPath
    fields: Fields
    complaint: JsonPath | None = None
    """Where a response with status 200 has an error message."""
    empty: JsonPath | None = None
    """A response without results counts as empty only if there is something at this path."""
    doubt: JsonPath | None = None
    """A response without results is a failure if there is something at this path: engines behind the service that did not answer."""
    max_k: int = 100
    max_query: int = 2_000
    """Characters of a query that the service takes; a longer one is cut at a word."""
    max_words: int = 1_000

    def __repr__(self) -> str:
        return repr_without(self, "params", "headers", "body")


class SearchTool(ToolDefaults):
    """A `Tool` around a REST tool, which sends the request."""

    is_async = True

    def __init__(
        self,
        name: str,
        source: str,
        request: RequestTemplate,
        *,
        key: str = "",
        rate: Rate | None = None,
        max_wait: float = 10.0,
        rest: Mapping[str, Any],
        **options: Any,
    ) -> None:
        self.name = name
        self.description = f"Searches the web with {source}: titles, addresses and excerpts of pages."
        self.input_schema: Mapping[str, Any] = {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1, "description": "What to look for."},
                "k": {"type": "integer", "minimum": 1, "maximum": 1000, "description": "How many results."},
            },
            "required": ["query"],
            "additionalProperties": False,
        }
        self._source = source
        self._template = request
        self._key = key
        self._rate = rate
        self._max_wait = max_wait
        self._params = {name: value for name, value in request.params.items() if _varies(value)}
        self._connection = dict(rest)
        self._rest = self._make_rest()
        self._has_tls = "ssl_context" in rest
        declared = {"read_only": True, "max_result_size": _MAX_ANSWER, **options}
        self.options: Options = make_options(f"engine {source!r}", declared)

    def _make_rest(self) -> RestTool:
        request = self._template
        return RestTool(
            self.name,
            request.method,
            _address(request, self._key),
            parameters={
                **{each: {"in": "query"} for each in self._params},
                **({"body": {"in": "body", "whole": True}} if request.body is not None else {}),
            },
            headers={"user-agent": f"clicket/{version()}", **_filled(request.headers, {"key": self._key})},
            max_response_size=_MAX_ANSWER,
            read_only=True,
            **self._connection,
        )

    async def _with_tls(self) -> RestTool:
        """The REST tool with the TLS context that all engines share, so that a new runtime need not read the certificates again."""
        if not self._has_tls:
            context = await load_ssl_context()
            if not self._has_tls:  # another search may have been faster
                self._connection["ssl_context"], self._has_tls = context, True
                self._rest = self._make_rest()
        return self._rest

    def __repr__(self) -> str:
        return f"<search request to {self._source}>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: Mapping[str, Any], ctx: ToolContext) -> list[dict[str, Any]]:
        if self._rate is not None and ctx.attempt > 1:  # the engine waited for the rate limit before the first attempt
            await self._rate.take()
        k = min(int(bound.get("k", 10)), self._template.max_k)
        query = _cut(bound["query"], self._template.max_query, self._template.max_words)
        values = {"query": query, "k": k, "key": self._key}
        arguments = _filled(self._params, values)
        if self._template.body is not None:
            arguments["body"] = _filled(self._template.body, values)
        try:
            answer = await (await self._with_tls()).run(arguments, ctx)
            documents = self._documents(answer, k)
        except ClicketError as error:
            raise self._without_key(error) from None
        return [msgspec.structs.asdict(document) for document in documents]

    async def close(self) -> None:
        await self._rest.close()

    def _documents(self, answer: Any, k: int) -> Sequence[Document]:
        request = self._template
        value = _json(answer)
        entries = request.results.find(value)
        if entries is None and request.complaint is not None and (said := request.complaint.find(value)):
            raise AnswerUnusable(f"it says: {_excerpt(said if isinstance(said, str) else json.dumps(said))}")
        if entries is None and request.empty is not None and request.empty.find(value) is not None:
            entries = []
        if not isinstance(entries, list):
            keys = ", ".join(sorted(map(str, value))[:8]) if isinstance(value, Mapping) else type(value).__name__
            raise AnswerUnusable(
                f"no results at {request.results.written!r} in its answer, which has: {keys or 'nothing'}."
            )
        if not entries and request.doubt is not None and (missing := request.doubt.find(value)):
            raise AnswerUnusable(
                f"it found nothing, because engines behind it did not answer: {_excerpt(json.dumps(missing))}"
            )
        documents, junk = request.fields.documents(entries, self._source, k)
        if junk and not documents:
            raise AnswerUnusable(f"none of its {junk} results has a title or a text where they should be.")
        return documents

    def _without_key(self, error: ClicketError) -> ClicketError:
        """The error without the API key, which services may repeat, and without a retry that would have to wait too long."""
        if isinstance(error, RetryableError) and (error.retry_after or 0.0) > self._max_wait:
            wait = f"it asks for a pause of {error.retry_after:.0f} s. {error.message}"
            error = AnswerUnusable(wait, **error.details)
        if self._key:
            error.message = self._hidden(error.message)
            error.args = (error.message,)
            error.details = {k: self._hidden(v) if isinstance(v, str) else v for k, v in error.details.items()}
        return error

    def _hidden(self, text: str) -> str:
        for form in (self._key, quote(self._key, safe=""), json.dumps(self._key)[1:-1]):
            text = text.replace(form, _HIDDEN)
        return text


def _cut(query: str, max_query: int, max_words: int) -> str:
    """The query within the limits of the service, cut at a word if it has spaces."""
    words = query.split()
    if len(query) <= max_query and len(words) <= max_words:
        return query
    short = " ".join(words[:max_words])
    if len(short) > max_query:
        short = short[: max_query + 1]
        short = short.rpartition(" ")[0] or short[:max_query]
    return short


def _varies(value: Any) -> bool:
    """Does it contain `{query}` or `{k}`, which differ in each request?"""
    if isinstance(value, str):
        return any(found in ("query", "k") for found in _PLACEHOLDER.findall(value))
    if isinstance(value, Mapping):
        return any(map(_varies, value.values()))
    return isinstance(value, list | tuple) and any(map(_varies, value))


def _filled(template: Any, values: Mapping[str, Any]) -> Any:
    """The template with its placeholders filled. A text that is only a placeholder becomes the value itself, so numbers stay numbers."""
    if isinstance(template, str):
        whole = _PLACEHOLDER.fullmatch(template)
        if whole is not None and whole[1] in values:
            return values[whole[1]]
        return _PLACEHOLDER.sub(lambda found: str(values.get(found[1], found[0])), template)
    if isinstance(template, Mapping):
        return {name: _filled(value, values) for name, value in template.items()}
    if isinstance(template, list | tuple):
        return [_filled(value, values) for value in template]
    return template


def _address(request: RequestTemplate, key: str) -> str:
    """The URL with the parameters that are the same in every request."""
    if "{" in request.url:
        raise UsageError(f"the url {request.url!r} cannot have placeholders; put {{query}} into params or the body.")
    given = _filled({name: value for name, value in request.params.items() if not _varies(value)}, {"key": key})
    pairs = (
        f"{quote(name, safe='')}={quote(_param(each), safe='')}"
        for name, value in given.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    )
    fixed = "&".join(pairs)
    return request.url + (("&" if "?" in request.url else "?") + fixed if fixed else "")


def _param(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _json(answer: Any) -> Any:
    """Parse the response. JSON with another content type is accepted; a web page, an image or nothing is not."""
    if answer is None:
        raise AnswerUnusable("its answer is empty.")
    if isinstance(answer, Mapping) and answer.keys() == {"content_type", "base64", "size"}:
        raise AnswerUnusable(f"it answered with {answer['content_type']}, not with JSON.")
    if not isinstance(answer, str):
        return answer
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        kind = "a web page" if _MARKUP.search(answer[:2000]) else "text"
        raise AnswerUnusable(f"it answered with {kind}, not with JSON: {_excerpt(answer)}") from None


def _excerpt(text: str) -> str:
    shown = plain_text(text) if _MARKUP.search(text) else " ".join(text.split())
    return shown[:200] + ("…" if len(shown) > 200 else "")
