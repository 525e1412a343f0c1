"""A search is put together here: every option is checked, every part has its deterministic default. Nothing is asked yet."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from typing import Any
from uuid import uuid4

import msgspec

from clicket.errors import UsageError
from clicket.ports.services import Embedder
from clicket.search.analyzing import CoverageAnalyzer
from clicket.search.engines.adapter import MAX_RESULTS, AskableEngine, as_engine
from clicket.search.engines.fusion import Mixed
from clicket.search.parts import Collection, is_collection
from clicket.search.planning import BridgePlanner
from clicket.search.ranking import LinkRanker
from clicket.search.run import accepting
from clicket.search.run.budget import Budget
from clicket.search.run.calling import Aside, Part
from clicket.search.run.checkpoints import Checkpoints
from clicket.search.run.machine import Machine
from clicket.search.run.nearness import Nearness
from clicket.search.run.order import Crew, Order
from clicket.search.run.recall import Recall
from clicket.search.synthesis import ExtractiveSynthesizer
from clicket.search.text.surrogates import clean

__all__ = ["MAX_QUESTION", "prepare"]

_K = 10
_PAGE = 200
_MAX_LOOP = 100
MAX_QUESTION = 10_000
"""Characters. What is longer is no question, and takes long to read."""
_VERSION = 1
"""Of the records: what an older version kept is not taken over."""


def prepare(
    question: str,
    *,
    engine: Any = None,
    engines: Sequence[Any] | None = None,
    model: Any = None,
    planner: Any = None,
    analyzer: Any = None,
    synthesizer: Any = None,
    ranker: Any = None,
    embedder: Embedder | None = None,
    max_loop: int = 3,
    budget: Budget | None = None,
    checkpoints: Checkpoints | None = None,
    request_id: str | None = None,
    k: int | None = None,
    max_page_size: int | None = None,
) -> Machine:
    """The machine of one search, ready to run. Wrong options are told here, before anything is asked."""
    order = Order(
        question=_question(question),
        max_loop=_whole("max_loop", max_loop, _MAX_LOOP),
        k=_K if k is None else _whole("k", k, MAX_RESULTS),
        budget=_budget(budget),
        request_id=uuid4().hex if request_id is None else str(request_id),
        max_page_size=_page_size(max_page_size),
    )
    asked, collection = _engine(engine, engines)
    given = {"planner": planner, "analyzer": analyzer, "synthesizer": synthesizer}
    defaults: dict[str, Any] = {
        "planner": BridgePlanner(collection),
        "analyzer": CoverageAnalyzer(collection),
        "synthesizer": ExtractiveSynthesizer(collection),
    }
    asks = ""
    if model is not None:
        modelled, asks = _modelled(model, defaults)
        given = {role: modelled[role] if part is None else part for role, part in given.items()}
    near = Nearness(embedder) if embedder is not None and _has_no_vectors(collection) else None
    crew = Crew(
        engine=asked,
        planner=Part("planner", "plan", given=given["planner"], default=defaults["planner"], accept=accepting.queries),
        ranker=Part(
            "ranker",
            "rank",
            given=ranker,
            default=LinkRanker(collection, near),
            accept=accepting.ranking,
            slow=near is not None,
        ),
        analyzer=Part(
            "analyzer", "analyze", given=given["analyzer"], default=defaults["analyzer"], accept=accepting.analysis
        ),
        synthesizer=Part(
            "synthesizer",
            "synthesize",
            given=given["synthesizer"],
            default=defaults["synthesizer"],
            accept=accepting.synthesis,
        ),
    )
    order = msgspec.structs.replace(order, near=collection is None)
    fingerprint = "" if checkpoints is None else _fingerprint(order, crew, asks, embedder)
    return Machine(order, crew, Recall(checkpoints, fingerprint))


# --- the options ------------------------------------------------------------------------------------------------------


def _question(given: Any) -> str:
    if not isinstance(given, str):
        raise UsageError(f"The question is a text, not {type(given).__name__}.")
    question = clean(given).strip()
    if not question:
        raise UsageError("The question is empty. Say what is to be found.")
    if len(question) > MAX_QUESTION:
        raise UsageError(
            f"The question has {len(question):,} characters, and at most {MAX_QUESTION:,} are taken. Ask what you want to know; "
            "what it is about belongs into the documents."
        )
    return question


def _whole(name: str, given: Any, most: int) -> int:
    if not isinstance(given, int) or isinstance(given, bool) or not 1 <= given <= most:
        raise UsageError(f"{name} is a whole number from 1 to {most}, not {given!r}.")
    return given


def _budget(given: Any) -> Budget:
    if given is None:
        return Budget()
    if isinstance(given, Budget):
        return given
    raise UsageError(f"budget= takes a clicket.search.Budget, not {type(given).__name__}.")


def _page_size(given: Any) -> int:
    if given is None:
        told = os.environ.get("SINGLE_PAGE_MAX_SIZE", "").strip()
        return int(told) if told.isascii() and told.isdigit() else _PAGE
    if not isinstance(given, int) or isinstance(given, bool) or given < 0:
        raise UsageError(f"max_page_size is a number of characters from 0 up, not {given!r}.")
    return given


def _engine(engine: Any, engines: Any) -> tuple[AskableEngine, Collection | None]:
    """The engine to ask, and the collection that it is, if it is one."""
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


def _has_no_vectors(collection: Collection | None) -> bool:
    return collection is None or collection.similarities("", ()) is None


def _modelled(model: Any, defaults: dict[str, Any]) -> tuple[dict[str, Any], str]:
    from clicket.search.modelled import ModelAnalyzer, ModelPlanner, ModelSynthesizer, as_model

    asked = as_model(model)
    return {
        "planner": ModelPlanner(asked, fallback=Aside(defaults["planner"])),
        "analyzer": ModelAnalyzer(asked, fallback=Aside(defaults["analyzer"])),
        "synthesizer": ModelSynthesizer(asked, fallback=Aside(defaults["synthesizer"])),
    }, asked.name


def _fingerprint(order: Order, crew: Crew, model: str, embedder: Embedder | None) -> str:
    """Which search it is: a record of another one is not taken over. Times do not count: one that goes on may have others."""
    limits = order.budget
    parts = [one.name for one in (crew.planner, crew.ranker, crew.analyzer, crew.synthesizer)]
    told = [
        _VERSION,
        order.question,
        order.max_loop,
        order.k,
        (limits.max_rounds, limits.max_queries, limits.max_documents, limits.max_tokens),
        crew.engine.name,
        parts,
        model,
        "" if embedder is None else embedder.name,
    ]
    return sha256(msgspec.json.encode(told)).hexdigest()[:32]
