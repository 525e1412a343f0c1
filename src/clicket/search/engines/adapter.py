"""Makes an engine of anything that searches, and checks what it returns: at most k documents, fields of their types, bounded
texts.

An entry that is not a document is left out and counted. An engine that raises, or returns nothing but such entries, has failed:
that is not the same as having found nothing.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, Protocol, TypeGuard

import msgspec

from clicket.errors import ClicketError, UsageError
from clicket.model.document import Document, Span
from clicket.model.text.surrogates import clean
from clicket.search.engines.document_pool import canonical_url
from clicket.search.engines.tasks import describe_error
from clicket.search.protocols import is_collection
from clicket.system.bridge import run_in_thread

__all__ = ["AdaptedEngine", "Answer", "AskableEngine", "EngineFailed", "as_engine"]

MAX_RESULTS = 100
_MAX_ENTRIES = 1_000
"""Entries of one answer that are read: an engine may return entries without end."""
_MAX_TEXT = 1_000_000
_MAX_TITLE = 1_000
_MAX_NAME = 2_000
"""Characters of an id or an address."""
_LISTS = ("results", "documents", "docs", "hits", "items")
_NAMES = {
    "id": ("id",),
    "title": ("title",),
    "text": ("text", "content", "page_content", "snippet"),
    "url": ("url", "link"),
    "source": ("source",),
    "score": ("score", "relevance_score"),
}


class EngineFailed(ClicketError):
    """An engine raised, timed out, or returned nothing that could be read."""

    code = "engine_failed"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The documents that an engine found, and notes for the user: what was left out or cut."""

    documents: tuple[Document, ...] = ()
    notes: tuple[str, ...] = ()


class AskableEngine(Protocol):
    """An engine as deep search uses it: `ask` raises `EngineFailed`, and its answer says what was left out."""

    @property
    def name(self) -> str: ...

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer: ...


def as_engine(thing: Any, *, name: str | None = None) -> AskableEngine:
    """An engine from an object with a `search(query, …)`, or from a function, that returns documents or mappings.

    It may be sync or async, with or without `k` and `deadline`. A sync one is called in threads, several queries at once.
    """
    if _is_askable(thing):
        return thing
    search = getattr(thing, "search", None)
    if isinstance(thing, type) or not callable(search):
        search = thing
    if isinstance(search, type) or not callable(search):
        raise UsageError(
            f"{type(thing).__name__} cannot search. Give an engine an async `search(query, *, k, deadline)`, "
            "or give a function that takes the query and returns documents."
        )
    return AdaptedEngine(search, name=name or _name_of(thing), whole=is_collection(thing))


class AdaptedEngine:
    """`whole`: the texts are those of a collection, and are not cut."""

    def __init__(self, search: Callable[..., Any], *, name: str, whole: bool = False) -> None:
        self.name = name
        self._search = search
        self._on_loop = _is_async(search)
        self._options = _accepted_options(search)
        self._max_text = None if whole else _MAX_TEXT

    async def search(self, query: str, *, k: int = 10, deadline: float | None = None) -> Sequence[Document]:
        return (await self.ask(query, k=k, deadline=deadline)).documents

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer:
        given = {"k": k, "deadline": deadline}
        options = {name: given[name] for name in self._options}
        try:
            if self._on_loop:
                answer = self._search(query, **options)
            else:
                answer = await run_in_thread(lambda: _collected(lambda: self._search(query, **options)))
            if inspect.isawaitable(answer):
                answer = await answer
            entries = answer if type(answer) in (list, tuple) else await _entries(answer)
        except Exception as error:
            raise EngineFailed(f"{self.name}: {describe_error(error)}", engine=self.name) from error
        return self._answer(entries, min(k, MAX_RESULTS))

    def _answer(self, entries: Sequence[Any], k: int) -> Answer:
        documents: dict[str, Document] = {}
        invalid = cut = seen = 0
        for entry in islice(entries, _MAX_ENTRIES):
            if len(documents) >= k:
                break
            seen += 1
            document = _document(entry, self.name, self._max_text)
            if document is None:
                invalid += 1
            elif documents.setdefault(document.id, document) is document:
                cut += len(document.text) == self._max_text
        if invalid and not documents:
            entry = "entry" if invalid == 1 else "entries"
            what = f"{self.name}: answered with {invalid} {entry} that no document could be read from"
            raise EngineFailed(what, engine=self.name)
        notes = []
        if invalid:
            notes.append(f"{self.name}: {invalid} of {seen} entries could not be read as documents and were left out")
        if cut:
            texts = "text was" if cut == 1 else "texts were"
            notes.append(f"{self.name}: {cut} long {texts} cut at {self._max_text} characters")
        return Answer(documents=tuple(documents.values()), notes=tuple(notes))


# --- how it is called -------------------------------------------------------------------------------------------------


def _is_askable(thing: Any) -> TypeGuard[AskableEngine]:
    """Has it our `ask`? Other objects have one that takes a question and nothing else."""
    own = getattr(thing, "ask", None)
    return (
        inspect.iscoroutinefunction(own) and _accepted_options(own) == ("k", "deadline") and not isinstance(thing, type)
    )


def _name_of(thing: Any) -> str:
    for given in (getattr(thing, "name", None), getattr(thing, "__name__", None)):
        if isinstance(given, str) and given.strip():
            return clean(given.strip())[:100]
    return type(thing).__name__


def _is_async(search: Callable[..., Any]) -> bool:
    kinds = (search, getattr(search, "__call__", None))  # noqa: B004  # its kind matters, not whether it exists
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in kinds)


def _accepted_options(search: Callable[..., Any]) -> tuple[str, ...]:
    """Which of `k` and `deadline` it takes."""
    function = getattr(search, "__func__", None)
    if inspect.ismethod(search) and inspect.isfunction(function):
        return _options_of(function, 2)  # cached: every search asks
    return _options_of.__wrapped__(search, 1)


@lru_cache(maxsize=64)
def _options_of(search: Callable[..., Any], skipped: int) -> tuple[str, ...]:
    try:
        parameters = list(inspect.signature(search).parameters.values())
    except (TypeError, ValueError):
        return ()
    named = [one.name for one in parameters[skipped:] if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    return tuple(name for name in ("k", "deadline") if takes_all or name in named)


def _collected(search: Callable[[], Any]) -> Any:
    """Call it in the thread, and read a generator there. An exit becomes an error: it must not end this process."""
    try:
        answer = search()
        return list(islice(answer, _MAX_ENTRIES)) if inspect.isgenerator(answer) else answer
    except SystemExit as error:
        raise RuntimeError(f"it called exit({error.code!r})") from None


async def _entries(answer: Any) -> Sequence[Any]:
    """The entries of an answer of any type. An answer that cannot be split is one entry."""
    if answer is None:
        return ()
    if isinstance(answer, Mapping):
        listed = next((answer[name] for name in _LISTS if isinstance(answer.get(name), list | tuple)), None)
        return (answer,) if listed is None else listed
    if isinstance(answer, AsyncIterable):
        taken: list[Any] = []
        async for entry in answer:
            taken.append(entry)
            if len(taken) >= _MAX_ENTRIES:
                break
        return taken
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        return (answer,)
    return list(islice(answer, _MAX_ENTRIES))


# --- what it returns --------------------------------------------------------------------------------------------------


def _document(entry: Any, engine: str, max_text: int | None) -> Document | None:
    """The entry as a document, or None. Without `max_text` it is of a collection, and only its encoding is checked."""
    if isinstance(entry, Document):
        if max_text is None and _is_clean(entry):
            return entry if entry.source else msgspec.structs.replace(entry, source=engine)
        fields: Mapping[str, Any] = msgspec.structs.asdict(entry)
    elif isinstance(entry, Mapping):
        fields = entry
    elif isinstance(entry, str | bytes | int | float | list | tuple | None):
        return None
    else:
        known = (name for names in _NAMES.values() for name in names)
        fields = {name: getattr(entry, name, None) for name in known}
    try:
        return _from_fields(fields, engine, max_text)
    except Exception:  # a mapping of another library may raise anything
        return None


def _is_clean(one: Document) -> bool:
    """Is it ASCII, or has it a text and no lone surrogate, and nothing in it is too long?"""
    if one.text.isascii() and one.title.isascii() and one.id.isascii():
        return True
    whole = f"{one.id}{one.title}{one.text}"
    fits = max(len(one.id), len(one.url), len(one.source)) <= _MAX_NAME and len(one.title) <= _MAX_TITLE
    clear = one.id.strip() and one.text.strip() and one.url == one.url.strip()
    return bool(
        fits and clear and clean(whole) is whole and clean(one.url) is one.url and clean(one.source) is one.source
    )


def _from_fields(fields: Mapping[str, Any], engine: str, max_text: int | None) -> Document | None:
    text = _text(_first(fields, "text"), max_text)
    title = _text(_first(fields, "title"), _MAX_TITLE)
    if not text.strip() and not title.strip():
        return None
    url = _text(_first(fields, "url"), _MAX_NAME + 1).strip()
    url = url if len(url) <= _MAX_NAME else ""
    id = _text(_first(fields, "id"), None)
    if not id.strip():
        id = canonical_url(url) if url else f"{engine}:{_digest(title, text)}"
    elif len(id) > _MAX_NAME:
        id = _digest(id)
    return Document(
        id=id,
        title=title,
        text=text,
        url=url,
        source=_text(_first(fields, "source"), _MAX_NAME) or engine,
        score=_number(_first(fields, "score")),
        spans=_spans(fields.get("spans"), len(text)),
    )


def _first(fields: Mapping[str, Any], name: str) -> Any:
    for one in _NAMES[name]:
        value = fields.get(one)
        if value is not None and value != "":
            return value
    return None


def _text(value: Any, limit: int | None) -> str:
    if isinstance(value, str):
        return clean(str(value)[:limit])
    if isinstance(value, bytes):
        return value[: None if limit is None else 4 * limit].decode("utf-8", errors="replace")[:limit]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)[:limit]
    return ""


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return round(number, 6) if math.isfinite(number) else 0.0


def _spans(value: Any, length: int) -> tuple[Span, ...]:
    try:
        spans = msgspec.convert(value, tuple[Span, ...])
    except msgspec.ValidationError:
        return ()
    return spans if all(0 <= start < end <= length for start, end in spans) else ()


def _digest(*texts: str) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:24]
