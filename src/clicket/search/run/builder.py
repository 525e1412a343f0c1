"""Builds the machine of one search: checks every option, and gives every part that is not given its built-in default."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any, TypedDict, Unpack

import msgspec

from clicket import system
from clicket.errors import UsageError
from clicket.model.text.surrogates import clean
from clicket.model.tool_tables import Budget
from clicket.search.engines.adapter import MAX_RESULTS, AskableEngine, as_engine
from clicket.search.engines.fusion import Mixed
from clicket.search.planning import BridgePlanner, CoverageAnalyzer
from clicket.search.planning.bridges import BridgeFinder
from clicket.search.planning.question_reading import read_question
from clicket.search.protocols import Collection, is_collection
from clicket.search.ranking import LinkRanker
from clicket.search.ranking.ranker import max_read
from clicket.search.ranking.term_weights import TermWeights
from clicket.search.run.checkpoints import CheckpointReplay, Checkpoints
from clicket.search.run.machine import Machine
from clicket.search.run.part import Part, threaded
from clicket.search.run.spec import Parts, SearchSpec
from clicket.search.synthesis import ExtractiveSynthesizer

__all__ = ["MAX_QUESTION", "SearchOptions", "build_search"]

_K = 10
_PAGE_SIZE = 200
_MAX_LOOP = 100
MAX_QUESTION = 10_000
"""Characters."""
_VERSION = 1
"""Of the fingerprint. A change makes the checkpoints of older versions unusable."""


class SearchOptions(TypedDict, total=False):
    """The options of one search."""

    engine: Any
    engines: Sequence[Any] | None
    model: Any
    brief: bool
    planner: Any
    analyzer: Any
    synthesizer: Any
    ranker: Any
    max_loop: int
    budget: Budget | None
    checkpoints: Checkpoints | None
    request_id: str | None
    k: int | None
    max_page_size: int | None


def build_search(question: str, **options: Unpack[SearchOptions]) -> Machine:
    """The machine of one search. Raises `UsageError` for a wrong option; no engine and no model is asked yet."""
    question = _question(question)
    budget, checkpoints = options.get("budget"), options.get("checkpoints")
    k, model, request_id = options.get("k"), options.get("model"), options.get("request_id")
    if not isinstance(budget, Budget | None):
        raise UsageError(f"budget= takes a clicket.search.Budget, not {type(budget).__name__}.")
    engine, collection = _engine(options.get("engine"), options.get("engines"))
    k_first, k_later = (_K, _K) if collection is None or options.get("ranker") is not None else max_read(collection)
    spec = SearchSpec(
        question=question,
        max_loop=_whole("max_loop", options.get("max_loop", 3), _MAX_LOOP),
        k=k_first if k is None else _whole("k", k, MAX_RESULTS),
        later_k=k_later if k is None else k,
        budget=Budget() if budget is None else budget,
        request_id=system.random_hex(16) if request_id is None else str(request_id),
        max_page_size=_page_size(options.get("max_page_size")),
        merge_similar=collection is None,
    )
    # Without a collection, each part counts in the documents that it is given.
    term_weights = None if collection is None else TermWeights(collection)
    finder = BridgeFinder(collection, term_weights)
    defaults: dict[str, Any] = {
        "planner": BridgePlanner(collection, finder=finder),
        "ranker": LinkRanker(collection, term_weights=term_weights),
        "analyzer": CoverageAnalyzer(collection, finder=finder),
        # A planner of the caller's own links documents by what the words of the question do not show.
        "synthesizer": ExtractiveSynthesizer(collection, judges=options.get("planner") is None),
    }
    given: dict[str, Any] = {role: options.get(role) for role in defaults}
    brief = _brief(options.get("brief", False), model)
    # A model that plans reads the question by itself; one that only writes the answer does not.
    reads = all(one is None for one in given.values()) and (model is None or brief)
    model_name = ""
    if model is not None:
        model_parts, model_name = _model_parts(model, defaults, brief=brief)
        given = {role: model_parts.get(role) if part is None else part for role, part in given.items()}

    parts = Parts(
        read=partial(read_question, collection=collection if reads else None),
        engine=engine,
        **{role: Part(role, given=given[role], default=default) for role, default in defaults.items()},
    )
    fingerprint = "" if checkpoints is None else _fingerprint(spec, parts, model_name)
    return Machine(spec, parts, CheckpointReplay(checkpoints, fingerprint))


def _question(given: Any) -> str:
    if not isinstance(given, str):
        raise UsageError(f"The question is a text, not {type(given).__name__}.")
    question = clean(given).strip()
    if not question:
        raise UsageError("The question is empty. Ask a question.")
    if len(question) > MAX_QUESTION:
        raise UsageError(
            f"The question has {len(question):,} characters; at most {MAX_QUESTION:,} are allowed. Ask one question, and put its "
            "background into the documents."
        )
    return question


def _whole(name: str, given: Any, most: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
        raise UsageError(f"{name} is a whole number from 1 to {most}, not {given!r}.")
    return given


def _page_size(given: Any) -> int:
    if given is None:
        setting = os.environ.get("SINGLE_PAGE_MAX_SIZE", "").strip()
        return int(setting) if setting.isascii() and setting.isdigit() else _PAGE_SIZE
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise UsageError(f"max_page_size is a number of characters from 0 up, not {given!r}.")
    return given


def _engine(engine: Any, engines: Any) -> tuple[AskableEngine, Collection | None]:
    """The engine to ask, and the same as a `Collection` if it is one."""
    if engine is not None and engines is not None:
        raise UsageError("Give engine= or engines=, not both.")
    if isinstance(engine, list | tuple):
        engine, engines = None, engine
    if engines is not None:
        if isinstance(engines, str) or not isinstance(engines, Sequence):
            raise UsageError("engines= takes a list of engines.")
        if len(engines) != 1:
            return Mixed(engines), None
        engine = engines[0]
    if engine is None:
        raise UsageError(
            "There is nothing to search in. Give engine=, for example clicket.search.Index.open('docs.db'), "
            "or a function that takes a query and returns documents."
        )
    return as_engine(engine), engine if is_collection(engine) else None


def _brief(given: Any, model: Any) -> bool:
    if not isinstance(given, bool):
        raise UsageError(f"brief is true or false, not {given!r}.")
    if given and model is None:
        raise UsageError("brief=True is about how a model answers, and there is none. Give model=, or leave brief out.")
    return given


def _model_parts(model: Any, defaults: dict[str, Any], *, brief: bool) -> tuple[dict[str, Any], str]:
    """The parts that ask the model: all of them, or if it is `brief` the synthesizer."""
    from clicket.models.adapter import as_model
    from clicket.search.llm import BriefSynthesizer, ModelAnalyzer, ModelPlanner, ModelSynthesizer

    chat_model = as_model(model)
    if brief:
        return {"synthesizer": BriefSynthesizer(chat_model, threaded(defaults["synthesizer"]))}, chat_model.name
    return {
        "planner": ModelPlanner(chat_model, fallback=threaded(defaults["planner"])),
        "analyzer": ModelAnalyzer(chat_model, fallback=threaded(defaults["analyzer"])),
        "synthesizer": ModelSynthesizer(chat_model, fallback=threaded(defaults["synthesizer"])),
    }, chat_model.name


def _fingerprint(spec: SearchSpec, parts: Parts, model: str) -> str:
    """Identifies a search, so that it does not resume from checkpoints of another one. Limits of time are not part of it: a
    resumed search may have others."""
    names = [one.name for one in (parts.planner, parts.ranker, parts.analyzer, parts.synthesizer)]
    fields = [_VERSION, spec.question, spec.max_loop, spec.k, spec.budget.counts, parts.engine.name, names, model]
    return sha256(msgspec.json.encode(fields)).hexdigest()[:32]
