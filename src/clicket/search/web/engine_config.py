"""Engines from settings: `{"kind": "brave", "key_env": "BRAVE_API_KEY", "pages": 5}`. Errors name the engine and the option."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from clicket.errors import UsageError, did_you_mean
from clicket.model.ports.services import SearchEngine
from clicket.runtime.runtime import Runtime
from clicket.search.web.json_engine import JsonEngine
from clicket.search.web.pages import Pages
from clicket.search.web.services import Bing, Brave, SearXNG, Serper, Tavily
from clicket.search.web.tool_engine import ToolEngine

__all__ = ["KINDS", "engine_of", "engines_of"]

KINDS: Mapping[str, Callable[..., Any]] = {
    "searxng": SearXNG,
    "tavily": Tavily,
    "brave": Brave,
    "serper": Serper,
    "bing": Bing,
    "json": JsonEngine,
    "tool": ToolEngine,
}
_KEY_VARIABLES = {
    "tavily": "TAVILY_API_KEY",
    "brave": "BRAVE_API_KEY",
    "serper": "SERPER_API_KEY",
    "bing": "BING_API_KEY",
}
_NOT_DECLARED = frozenset({"self", "runtime", "caller", "clock", "connection", "options", "key"})


def engine_of(
    declared: Mapping[str, Any], *, runtime: Runtime | None = None, environ: Mapping[str, str] | None = None
) -> SearchEngine:
    """The engine of one declaration. With `runtime`, its queries are calls of that runtime.

    The key is read from the variable that `key_env` names (`BRAVE_API_KEY` and so on when it is left out); `key` is the key
    itself. `pages` is the number of result pages to read, or a table with the options of `Pages`.
    """
    if not isinstance(declared, Mapping):
        raise UsageError(f"a search engine is declared as a table with a kind, not as {type(declared).__name__}.")
    given = dict(declared)
    kind = given.pop("kind", None)
    if kind not in KINDS:
        near = did_you_mean(str(kind), KINDS)
        raise UsageError(f"there is no search engine of the kind {kind!r}.{near} Known: {', '.join(KINDS)}.")
    pages = given.pop("pages", None)
    environ = os.environ if environ is None else environ
    if key := _key(kind, given, environ):
        given["key"] = key
    _check(kind, given)
    if kind == "tool":
        if runtime is None:
            raise UsageError("a search engine of the kind 'tool' needs a runtime that has the tool.")
        given["caller"] = runtime
    elif runtime is not None:
        given["runtime"] = runtime
    try:
        engine: SearchEngine = KINDS[kind](**given)
    except TypeError as error:
        raise UsageError(f"search engine {kind!r}: {str(error).partition('() ')[2] or error}.") from None
    return engine if not pages else _with_pages(kind, engine, pages)


def engines_of(
    declared: Iterable[Mapping[str, Any]], *, runtime: Runtime | None = None, environ: Mapping[str, str] | None = None
) -> list[SearchEngine]:
    """One engine for each declaration. Engines of one kind that share a runtime need different `name`s."""
    if isinstance(declared, Mapping | str):
        raise UsageError("search engines are declared as a list of tables, one for each engine.")
    return [engine_of(each, runtime=runtime, environ=environ) for each in declared]


def _key(kind: str, given: dict[str, Any], environ: Mapping[str, str]) -> str:
    named = given.pop("key_env", None)
    if given.get("key"):
        if named is not None:
            raise UsageError(f"search engine {kind!r}: give key_env or key, not both.")
        return str(given.pop("key"))
    variable = named or _KEY_VARIABLES.get(kind)
    if variable is None:
        return ""
    key = environ.get(str(variable), "").strip()
    if not key:
        raise UsageError(
            f"search engine {kind!r} needs a key, and {variable} is not set. Put the key there, "
            "or name another variable with key_env."
        )
    return key


def _check(kind: str, given: Mapping[str, Any]) -> None:
    known = _options(KINDS[kind]) | {"kind", "key", "key_env", "pages"}
    for name in given:
        if name not in known:
            near = did_you_mean(name, known)
            raise UsageError(f"search engine {kind!r} has no option {name!r}.{near} Known: {', '.join(sorted(known))}.")


def _options(made: Callable[..., Any]) -> set[str]:
    names = {*inspect.signature(made).parameters}
    if "options" in names:  # they are passed on
        names |= {*inspect.signature(JsonEngine).parameters}
    return names - _NOT_DECLARED


def _with_pages(kind: str, engine: SearchEngine, pages: Any) -> SearchEngine:
    given = {} if pages is True else {"top": pages} if isinstance(pages, int) else pages
    known = {*inspect.signature(Pages).parameters} - {"engine", "resolve", "network", "ssl_context"}
    if not isinstance(given, Mapping):
        raise UsageError(f"search engine {kind!r}: pages is a number or a table of options, not {pages!r}.")
    for name in given:
        if name not in known:
            raise UsageError(f"search engine {kind!r}: pages has no option {name!r}.{did_you_mean(name, known)}")
    return Pages(engine, **given)
