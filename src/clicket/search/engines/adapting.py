"""Anything that searches becomes an engine that keeps its word: at most k documents, every field of its type, no text without
end. What is no document is left out and counted; an engine that raised, or gave nothing but junk, has failed, which is not
the same as having found nothing."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import math
from collections.abc import AsyncIterable, Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeGuard, TypeVar

import msgspec

from clicket.bridge import Workers
from clicket.errors import ClicketError, UsageError
from clicket.model.document import Document, Span
from clicket.search.engines.merging import canonical_url
from clicket.search.protocols import is_collection
from clicket.search.text.cleaning import clean, is_whole

__all__ = ["Adapted", "Answer", "Asked", "EngineFailed", "as_engine", "beside", "off_loop", "said", "stop"]

T = TypeVar("T")
MAX_RESULTS = 100
_MAX_ENTRIES = 1_000
"""Entries of one answer that are looked at: an engine may never stop giving junk."""
_MAX_TEXT = 1_000_000
_MAX_TITLE = 1_000
_MAX_NAME = 2_000
"""Characters of an id or an address."""
_MUCH = 100_000
"""Characters that take longer to read than the loop may stand still."""
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
    """A search did not come to an answer."""

    code = "engine_failed"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine answered, and what there is to say about it."""

    documents: tuple[Document, ...] = ()
    notes: tuple[str, ...] = ()


class Asked(Protocol):
    """An engine as the machine uses it: raises `EngineFailed` when it failed, and tells what it left out."""

    @property
    def name(self) -> str: ...

    async def ask(self, query: str, *, k: int, deadline: float | None) -> Answer: ...


def as_engine(thing: Any, *, name: str | None = None) -> Asked:
    """An engine from anything with a `search(query, …)`, or from a function: sync or async, with or without `k` and `deadline`,
    that gives documents or mappings. One that is not async is called in threads, for several queries at once."""
    if _is_asked(thing):
        return thing
    search = getattr(thing, "search", None)
    if isinstance(thing, type) or not callable(search):
        search = thing
    if isinstance(search, type) or not callable(search):
        raise UsageError(
            f"{type(thing).__name__} cannot search. Give an engine an async `search(query, *, k, deadline)`, "
            "or give a function that takes the query and returns documents."
        )
    return Adapted(search, name=name or _name_of(thing), whole=is_collection(thing))


class Adapted:
    """`whole`: the texts are one's own and are not cut."""

    def __init__(self, search: Callable[..., Any], *, name: str, whole: bool = False) -> None:
        self.name = name
        self._search = search
        self._on_loop = _is_async(search)
        self._options = _options(search)
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
                answer = await off_loop(lambda: _at_hand(lambda: self._search(query, **options)))
            if inspect.isawaitable(answer):
                answer = await answer
            entries = answer if type(answer) in (list, tuple) else await _entries(answer)
        except Exception as error:
            raise EngineFailed(f"{self.name}: {said(error)}", engine=self.name) from error
        return self._answer(entries, min(k, MAX_RESULTS))

    def _answer(self, entries: Sequence[Any], k: int) -> Answer:
        documents: dict[str, Document] = {}
        junk = cut = seen = 0
        own = self._max_text is None
        for entry in islice(entries, _MAX_ENTRIES):
            if len(documents) >= k:
                break
            seen += 1
            if own and type(entry) is Document and entry.source and _is_plain(entry):
                documents.setdefault(entry.id, entry)
                continue
            document = _document(entry, self.name, self._max_text)
            if document is None:
                junk += 1
            elif documents.setdefault(document.id, document) is document:
                cut += len(document.text) == self._max_text
        if junk and not documents:
            entry = "entry" if junk == 1 else "entries"
            what = f"{self.name}: answered with {junk} {entry} that no document could be read from"
            raise EngineFailed(what, engine=self.name)
        notes = []
        if junk:
            notes.append(f"{self.name}: {junk} of {seen} entries could not be read as documents and were left out")
        if cut:
            texts = "text was" if cut == 1 else "texts were"
            notes.append(f"{self.name}: {cut} long {texts} cut at {self._max_text} characters")
        return Answer(documents=tuple(documents.values()), notes=tuple(notes))


async def off_loop(function: Callable[[], Any]) -> Any:
    """Run what may block in a thread of its own, which ends with it: what never returns cannot keep the others waiting."""
    workers, context = Workers(1, "clicket-search"), contextvars.copy_context()
    try:
        return await workers.run(lambda: context.run(function))
    finally:
        workers.close(0)


async def beside(size: int, function: Callable[[], T]) -> T:
    """Run it here, or off the loop when it reads `size` characters and they are many."""
    return function() if size <= _MUCH else await off_loop(function)


async def stop(tasks: Collection[asyncio.Future[Any]], grace: float) -> None:
    """Cancel what still runs and give it a moment to end. What does not end is left, and what it raises is nobody's concern."""
    rest = [task for task in tasks if not task.done()]
    for task in tasks:
        if task.done():
            _unread(task)
        else:
            task.cancel()
            task.add_done_callback(_unread)
    if rest:
        await asyncio.wait(rest, timeout=grace)


def _unread(task: asyncio.Future[Any]) -> None:
    """What it raised was looked at: the loop need not complain of it."""
    if not task.cancelled():
        task.exception()


def said(error: BaseException) -> str:
    """An error in a line, as a note can carry it."""
    text = " ".join(clean(str(error)).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


# --- how it is called -------------------------------------------------------------------------------------------------


def _is_asked(thing: Any) -> TypeGuard[Asked]:
    """Others have an `ask` too, which takes a question and nothing else."""
    own = getattr(thing, "ask", None)
    return inspect.iscoroutinefunction(own) and _options(own) == ("k", "deadline") and not isinstance(thing, type)


def _name_of(thing: Any) -> str:
    for given in (getattr(thing, "name", None), getattr(thing, "__name__", None)):
        if isinstance(given, str) and given.strip():
            return clean(given.strip())[:100]
    return type(thing).__name__


def _is_async(search: Callable[..., Any]) -> bool:
    kinds = (search, getattr(search, "__call__", None))  # noqa: B004  # its kind is asked for, not whether it is there
    return any(inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one) for one in kinds)


def _options(search: Callable[..., Any]) -> tuple[str, ...]:
    """Which of our options it takes."""
    function = getattr(search, "__func__", None)
    if inspect.ismethod(search) and inspect.isfunction(function):
        return _method_options(function)  # a class has few, and every search asks
    return _taken(search)


@lru_cache(maxsize=64)
def _method_options(function: FunctionType) -> tuple[str, ...]:
    return _taken(MethodType(function, object()))


def _taken(search: Callable[..., Any]) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(search).parameters
    except (TypeError, ValueError):
        return ()
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return ("k", "deadline")
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    first = next(iter(parameters), None)
    return tuple(
        name for name in ("k", "deadline") if name in parameters and name != first and parameters[name].kind in named
    )


def _at_hand(search: Callable[[], Any]) -> Any:
    """In the thread: what is made while it is read is read there, and nothing said there ends this process."""
    try:
        answer = search()
        return list(islice(answer, _MAX_ENTRIES)) if inspect.isgenerator(answer) else answer
    except SystemExit as error:
        raise RuntimeError(f"it called exit({error.code!r})") from None


async def _entries(answer: Any) -> Sequence[Any]:
    """The entries of an answer of whatever kind. One that cannot be taken apart is one junk entry."""
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


# --- what it gives ----------------------------------------------------------------------------------------------------


def _document(entry: Any, engine: str, max_text: int | None) -> Document | None:
    """The document that an entry is, or None. Without `max_text` it is one's own, and what is plain text needs no second look."""
    if isinstance(entry, Document):
        if (max_text is None and _is_plain(entry)) or _is_sound(entry, max_text):
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
    except Exception:  # a mapping may be anything that calls itself one
        return None


def _is_plain(document: Document) -> bool:
    return document.text.isascii() and document.title.isascii() and document.id.isascii()


def _is_sound(document: Document, max_text: int | None) -> bool:
    """The quick look for engines that keep to the contract: it is taken at every find."""
    id, title, text, url, source = document.id, document.title, document.text, document.url, document.source
    if not (
        type(id) is type(title) is type(text) is type(url) is type(source) is str and type(document.score) is float
    ):
        return False
    if not (0 < len(id) <= _MAX_NAME >= len(url) and len(source) <= _MAX_NAME and len(title) <= _MAX_TITLE):
        return False
    if not (text or title) or (max_text is not None and len(text) >= max_text) or not math.isfinite(document.score):
        return False
    if document.spans and _spans(document.spans, len(text)) != document.spans:
        return False
    if text.isascii() and title.isascii() and id.isascii() and url.isascii() and source.isascii():
        return True
    return is_whole(text) and is_whole(title) and is_whole(id) and is_whole(url) and is_whole(source)


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
    if not isinstance(value, list | tuple):
        return ()
    kept = []
    for span in value:
        if not isinstance(span, list | tuple) or len(span) != 2:
            return ()
        start, end = span
        if type(start) is not int or type(end) is not int or not 0 <= start < end <= length:
            return ()
        kept.append((start, end))
    return tuple(kept)


def _digest(*texts: str) -> str:
    return sha256("\0".join(texts).encode()).hexdigest()[:24]
