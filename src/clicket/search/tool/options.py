"""The options of the tool `deep_search`, from Python or from `[search]` of a settings file, checked."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from clicket.errors import UsageError, did_you_mean
from clicket.model.codec import encode
from clicket.model.tool_tables import INDEX, Budget, SearchTable

__all__ = ["MAX_LOOP", "Makers", "Setup", "refuse_unknown", "setup_of"]

MAX_LOOP = 10
"""Rounds that a call may ask for."""
_PARTS = ("planner", "analyzer", "synthesizer", "ranker")


class Makers(msgspec.Struct, frozen=True, kw_only=True):
    """Functions that make engines and models from their declarations in a settings file."""

    engine: Callable[[Any], Any] | None = None
    model: Callable[[Any], Any] | None = None


class Setup(SearchTable, frozen=True, kw_only=True):
    """The options of one tool."""

    def tool_options(self) -> dict[str, Any]:
        """A search is read-only, so after a crash it runs again. A failure is not retried: engines retry themselves."""
        own = {
            "timeout": self.timeout,
            "idle_timeout": self.idle_timeout,
            "cache": self.cache,
            "max_retries": 0,
            "read_only": True,
            "version": self.version(),
        }
        return {**own, **self.options}

    def version(self) -> str:
        """Part of the cache key: results of one set-up are not served for another."""
        fields = (
            str(Path(self.index).absolute()) if self.needs_index else "",
            [_name_of(one) for one in (self.engine, *self.engines) if one is not None],
            [_name_of(getattr(self, name)) for name in ("model", "embedder", *_PARTS)],
            self.max_loop,
            self.k,
            self.max_documents,
            self.max_page_size,
            self.whole,
            self.budget.counts,
            *(["brief"] if self.brief else []),
        )
        return sha256(encode(fields)).hexdigest()[:12]

    @property
    def needs_index(self) -> bool:
        return self.engine is None and (not self.engines or "index" in self.engines)


_TYPES = {field.name: field.type for field in msgspec.structs.fields(Setup)}


def setup_of(
    given: Mapping[str, Any], base: Setup | None = None, where: str = "deep_search", makers: Makers | None = None
) -> Setup:
    """`base` with these values. Raises `UsageError` that names the wrong option."""
    values: dict[str, Any] = {}
    refuse_unknown(given, _TYPES, where)
    for name, value in given.items():
        plain = os.fspath(value) if isinstance(value, os.PathLike) else value
        if name == "budget" and isinstance(plain, Budget):
            values[name] = plain
            continue
        if name == "budget" and isinstance(plain, Mapping):
            refuse_unknown(plain, Budget.__struct_fields__, f"{where}: budget")
        try:
            values[name] = msgspec.convert(plain, _TYPES[name])
        except msgspec.ValidationError as error:
            shown = (
                "" if name in ("engine", "engines", "model") else f" = {value!r}"
            )  # declarations may contain secrets
            raise UsageError(f"{where}: {name}{shown} does not fit: {str(error).rstrip('.')}.") from None
    setup = msgspec.structs.replace(base or Setup(), **values)
    return _resolved(_checked(setup, where), where, makers or Makers())


def refuse_unknown(given: Iterable[Any], known: Collection[str], where: str) -> None:
    for name in given:
        if name not in known:
            raise UsageError(
                f"{where}: unknown option {name!r}.{did_you_mean(str(name), known)} Known: {', '.join(known)}."
            )


def _checked(setup: Setup, where: str) -> Setup:
    if not 1 <= setup.max_loop <= MAX_LOOP:
        raise UsageError(f"{where}: max_loop is a number of rounds from 1 to {MAX_LOOP}, not {setup.max_loop}.")
    for name in ("k", "max_page_size", "max_documents"):
        value = getattr(setup, name)
        if value is not None and value < 1:
            raise UsageError(f"{where}: {name} must be at least 1, not {value}.")
    if setup.brief and setup.model is None:
        raise UsageError(
            f"{where}: brief is about how a model answers, and there is none. Set model, or leave brief out."
        )
    if setup.engine is not None and setup.engines:
        raise UsageError(f"{where}: give one engine, or several engines, not both.")
    if setup.options.get("isolation", "auto") not in ("auto", "inline"):
        raise UsageError(f"{where}: a search waits for its engines on the event loop; leave isolation out.")
    if not setup.index:
        raise UsageError(f"{where}: index is the path of a file; leave it out for {INDEX}.")
    return setup


def _resolved(setup: Setup, where: str, makers: Makers) -> Setup:
    """The set-up with engines, model and embedder made from their declarations."""

    def engine(given: Any) -> Any:
        if not isinstance(given, str | Mapping) or given == "index":
            return given
        if makers.engine is None:
            raise UsageError(
                f"{where}: an engine is an object with `search`, or 'index'. Declarations like {_kind(given)} are for the "
                "settings file; in Python make the engine itself: from clicket.web import engine_of."
            )
        return _make(where, "engines", makers.engine, given)

    model = setup.model
    if isinstance(model, str | Mapping | list):
        if makers.model is None:
            raise UsageError(
                f"{where}: a model is an object, or a function from text to text; for {_kind(model)} make one with "
                "clicket.models.model_of."
            )
        model = _make(where, "model", makers.model, model)
    embedder = setup.embedder
    if isinstance(embedder, str | Mapping):
        from clicket.models.embedding.kinds import embedder_of

        embedder = _make(where, "embedder", embedder_of, embedder)
    one = None if isinstance(setup.engine, str) and setup.engine == "index" else setup.engine
    one = None if one is None else engine(one)
    several = tuple(engine(each) for each in setup.engines)
    return msgspec.structs.replace(setup, engine=one, engines=several, model=model, embedder=embedder)


def _make(where: str, name: str, make: Callable[[Any], Any], given: Any) -> Any:
    try:
        return make(given)
    except UsageError as error:
        raise UsageError(f"{where}: {name}: {error.message}") from None


def _kind(given: Any) -> str:
    """A declaration without its secrets."""
    return repr(given if isinstance(given, str) else {"kind": given.get("kind")})


def _name_of(thing: Any) -> str:
    if thing is None or isinstance(thing, str):
        return thing or ""
    if inspect.isroutine(thing):
        return f"{thing.__module__}.{thing.__qualname__}"
    named = getattr(thing, "name", None)
    return f"{type(thing).__module__}.{type(thing).__qualname__} {named if isinstance(named, str) else ''}"
