"""One question to a search service as a tool: `{query, k}` in, documents out. The key is in the request and nowhere else.

What is on record is the question and the documents. An answer that is no answer (a page where JSON was promised, half of a
JSON text, nothing at all) is a failure with its reason, never an empty list.
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
from clicket.model.version import version
from clicket.search.extract.html import plain_text
from clicket.tools import ToolContext, Traits, defaults
from clicket.tools.options import Options, make_options
from clicket.tools.rest import RestTool
from clicket.web.certificates import certificates
from clicket.web.paths import Path
from clicket.web.rate import Rate
from clicket.web.results import Fields

__all__ = ["AnswerUnusable", "Question", "QuestionTool"]

_PLACE = re.compile(r"\{(query|k|key)\}")
_MAX_ANSWER = 8 * 1024 * 1024
_HIDDEN = "***"
_MARKUP = re.compile(r"<[a-zA-Z!/]")


class AnswerUnusable(ClicketError):
    """The service answered, but what it said cannot be used."""

    code = "tool_error"
    retryable = False


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """How a service is asked, and where in its answer the results are. `{query}`, `{k}` and `{key}` are filled in."""

    url: str
    method: str = "GET"
    params: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    body: Any = None
    results: Path
    fields: Fields
    complaint: Path | None = None
    """Where an answer that came with 200 says what went wrong."""
    empty: Path | None = None
    """Answers without results are taken for real only if this leads somewhere."""
    doubt: Path | None = None
    """An answer without results is a failure if this finds something: engines behind the service that did not answer."""
    max_k: int = 100
    max_query: int = 2_000
    """Characters of a query that the service takes; a longer one is cut at a word."""
    max_words: int = 1_000


class QuestionTool:
    """A `Tool`: what it is made of is a REST tool that does the sending."""

    is_async = True
    traits = Traits()
    run_sync = None
    output_schema = None
    bind_plain = defaults.never_plain
    data_version = defaults.no_data_version
    is_cacheable = defaults.always_cacheable
    sweep = defaults.no_sessions
    owned_by = defaults.shared_by_owners

    def __init__(
        self,
        name: str,
        source: str,
        question: Question,
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
        self._source, self._question, self._key, self._rate, self._max_wait = source, question, key, rate, max_wait
        self._params = {name: value for name, value in question.params.items() if _asks(value)}
        self._connection = dict(rest)
        self._rest = self._made()
        self._trusts = "ssl_context" in rest
        declared = {"read_only": True, "max_result_size": _MAX_ANSWER, **options}
        self.options: Options = make_options(f"engine {source!r}", declared)

    def _made(self) -> RestTool:
        question = self._question
        return RestTool(
            self.name,
            question.method,
            _address(question, self._key),
            parameters={
                **{each: {"in": "query"} for each in self._params},
                **({"body": {"in": "body", "whole": True}} if question.body is not None else {}),
            },
            headers={"user-agent": f"clicket/{version()}", **_filled(question.headers, {"key": self._key})},
            max_response_size=_MAX_ANSWER,
            read_only=True,
            **self._connection,
        )

    async def _trusting(self) -> RestTool:
        """The REST tool with the certificates that all engines share: a runtime that opens anew should not read them anew."""
        if not self._trusts:
            context = await certificates()
            if not self._trusts:  # somebody else may have come first
                self._connection["ssl_context"], self._trusts = context, True
                self._rest = self._made()
        return self._rest

    def __repr__(self) -> str:
        return f"<question to {self._source}>"

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments

    async def run(self, bound: Mapping[str, Any], ctx: ToolContext) -> list[dict[str, Any]]:
        if self._rate is not None and ctx.attempt > 1:  # the first has waited already, before it was a call
            await self._rate.take()
        k = min(int(bound.get("k", 10)), self._question.max_k)
        asked = _cut(bound["query"], self._question.max_query, self._question.max_words)
        values = {"query": asked, "k": k, "key": self._key}
        arguments = _filled(self._params, values)
        if self._question.body is not None:
            arguments["body"] = _filled(self._question.body, values)
        try:
            answer = await (await self._trusting()).run(arguments, ctx)
            documents = self._documents(answer, k)
        except ClicketError as error:
            raise self._safe(error) from None
        return [msgspec.structs.asdict(document) for document in documents]

    async def close(self) -> None:
        await self._rest.close()

    def _documents(self, answer: Any, k: int) -> Sequence[Document]:
        question, value = self._question, _json(answer)
        entries = question.results.find(value)
        if entries is None and question.complaint is not None and (said := question.complaint.find(value)):
            raise AnswerUnusable(f"it says: {_line(said if isinstance(said, str) else json.dumps(said))}")
        if entries is None and question.empty is not None and question.empty.find(value) is not None:
            entries = []
        if not isinstance(entries, list):
            keys = ", ".join(sorted(map(str, value))[:8]) if isinstance(value, Mapping) else type(value).__name__
            raise AnswerUnusable(
                f"no results at {question.results.written!r} in its answer, which has: {keys or 'nothing'}."
            )
        if not entries and question.doubt is not None and (missing := question.doubt.find(value)):
            raise AnswerUnusable(
                f"it found nothing because of others that did not answer: {_line(json.dumps(missing))}"
            )
        documents, junk = question.fields.documents(entries, self._source, k)
        if junk and not documents:
            raise AnswerUnusable(f"none of its {junk} results has a title or a text where they should be.")
        return documents

    def _safe(self, error: ClicketError) -> ClicketError:
        """Without the key, which services like to repeat, and not worth a retry if that would take too long."""
        if isinstance(error, RetryableError) and (error.retry_after or 0.0) > self._max_wait:
            wait = f"it wants to be left alone for {error.retry_after:.0f} s. {error.message}"
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
    """As much of a query as the service takes. Languages without spaces are cut where they must be."""
    words = query.split()
    if len(query) <= max_query and len(words) <= max_words:
        return query
    short = " ".join(words[:max_words])
    if len(short) > max_query:
        short = short[: max_query + 1]
        short = short.rpartition(" ")[0] or short[:max_query]
    return short


def _asks(value: Any) -> bool:
    """Is there a place in it that each question fills anew?"""
    if isinstance(value, str):
        return any(found in ("query", "k") for found in _PLACE.findall(value))
    if isinstance(value, Mapping):
        return any(map(_asks, value.values()))
    return isinstance(value, list | tuple) and any(map(_asks, value))


def _filled(shape: Any, values: Mapping[str, Any]) -> Any:
    """The shape with its places filled. A place that is all of a text becomes the value itself, so that numbers stay numbers."""
    if isinstance(shape, str):
        whole = _PLACE.fullmatch(shape)
        if whole is not None and whole[1] in values:
            return values[whole[1]]
        return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), shape)
    if isinstance(shape, Mapping):
        return {name: _filled(value, values) for name, value in shape.items()}
    if isinstance(shape, list | tuple):
        return [_filled(value, values) for value in shape]
    return shape


def _address(question: Question, key: str) -> str:
    """The address with what is the same in every question."""
    if "{" in question.url:
        raise UsageError(f"the url {question.url!r} has no places; put what is asked into params or the body.")
    given = _filled({name: value for name, value in question.params.items() if not _asks(value)}, {"key": key})
    pairs = (
        f"{quote(name, safe='')}={quote(_word(each), safe='')}"
        for name, value in given.items()
        if value is not None
        for each in (value if isinstance(value, list) else [value])
    )
    fixed = "&".join(pairs)
    return question.url + (("&" if "?" in question.url else "?") + fixed if fixed else "")


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _json(answer: Any) -> Any:
    """JSON that came under another type is taken; a page, a picture or nothing is not."""
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
        raise AnswerUnusable(f"it answered with {kind}, not with JSON: {_line(answer)}") from None


def _line(text: str) -> str:
    shown = plain_text(text) if _MARKUP.search(text) else " ".join(text.split())
    return shown[:200] + ("…" if len(shown) > 200 else "")
