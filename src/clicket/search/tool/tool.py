"""The deep search, as a function and as a tool. The tool emits its messages as events and saves checkpoints in the call's journal:
after a crash, no query that ended is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Unpack
from weakref import WeakKeyDictionary, ref

import msgspec

from clicket.errors import InvalidInput, StoreUnavailable, UsageError
from clicket.kernel import SearchState
from clicket.model.codec import encode
from clicket.model.tool_tables import Budget
from clicket.search.findings import SearchFailed, SearchResult
from clicket.search.run.builder import MAX_QUESTION, SearchOptions, build_search
from clicket.search.run.machine import Machine
from clicket.search.run.messages import Message
from clicket.search.tool.engines import Engines, data_version_of
from clicket.search.tool.options import MAX_LOOP, Setup, refuse_unknown, setup_of
from clicket.tools import Options, ToolContext, make_options
from clicket.tools.defaults import ToolDefaults
from clicket.tools.schema import DIALECT

__all__ = ["DeepSearch", "deep_search", "deep_search_stream"]

_HEARTBEAT = 5.0
"""Seconds between heartbeats."""
_ROUNDS_SHARE, _ANSWER_SHARE = 0.8, 0.15
"""The shares of a call's time that the rounds and the synthesis may take."""
_LARGE = 64 * 1024
"""Bytes: a larger message keeps only its best documents, because every reader of events gets all messages."""
_STAGES = ("decomposing", "searching", "analyzing")


class DeepSearch(ToolDefaults):
    """`await deep_search("question", engine=index)` returns a `SearchResult`; in `Runtime(tools=[deep_search])` it is a tool.

    `deep_search.tool(engine=index, max_loop=2)` returns a tool with other options.
    """

    is_async = True

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.name: str = setup.name
        self.description: str = setup.description
        self.input_schema: Mapping[str, Any] = _schema(setup.max_loop)
        self.options: Options = make_options(f"tool {setup.name!r}", setup.tool_options())
        self._owner: ref[object] | None = None
        self._engines: WeakKeyDictionary[asyncio.AbstractEventLoop, Engines] = WeakKeyDictionary()

    def tool(self, **options: Any) -> DeepSearch:
        """A copy of this tool with other options: `deep_search.tool(engine=index, model=model)`.

        Options of a search (`engine`, `engines`, `model`, `planner`, `analyzer`, `synthesizer`, `ranker`, `max_loop`, `k`,
        `budget`, `max_page_size`), and: `index` (a file, searched if no engine is given), `embedder` for it, `max_documents` in
        the output (20), `whole` (store the whole result as an artifact), `timeout` (600 s), `idle_timeout` (30 s), `cache` (2 h),
        `name`, `description`, and `options` for other options of `@tool`.
        """
        return type(self)(setup_of(options, self.setup))

    async def __call__(self, question: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """Search, and return the result. Options: `engine`, `engines`, `model`, `max_loop`, `budget` …; the others are this tool's.

        Raises `SearchFailed` if there is nothing to answer from, and `UsageError` for a wrong option."""
        async with self._started(question, options) as machine:
            return await machine.finish()

    async def stream(self, question: str, **options: Unpack[SearchOptions]) -> AsyncGenerator[Message, None]:
        """The messages of the search as they come; the last one is `final_result` or `error`."""
        async with self._started(question, options) as machine, aclosing(machine.stream()) as messages:
            async for message in messages:
                yield message

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    # The tool.

    def owned_by(self, owner: object) -> DeepSearch:
        """This tool for the first runtime that uses it, a copy for any other at the same time: closing one does not close the
        other's engines."""
        other = self._owner() if self._owner is not None else None
        if other is not None and other is not owner:
            return type(self)(self.setup).owned_by(owner)
        self._owner = ref(owner)
        return self

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        query = str(arguments["query"]).strip()
        if not query:
            raise InvalidInput([{"path": "/query", "message": "it is empty"}], "Ask a question.")
        return {"query": query, "max_loop": int(arguments.get("max_loop", self.setup.max_loop))}

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        machines: list[Machine] = []  # none until the index is open
        heartbeats = asyncio.create_task(_send_heartbeats(ctx, self.options.idle_timeout, machines))
        try:
            return await self._search(bound, ctx, machines)
        finally:
            heartbeats.cancel()
            await asyncio.wait((heartbeats,))

    def data_version(self) -> str:
        """Part of the cache key: it changes when the documents change, as far as the engines report it."""
        setup = self.setup
        versions = [data_version_of(one) for one in (setup.engine, *setup.engines) if one is not None]
        return " ".join([*versions, *([data_version_of(setup.index)] if setup.needs_index else [])])

    def is_cacheable(self, output: Any) -> bool:
        """A result that a failure or a budget made smaller is not cached."""
        failed = any(one["failed"] for one in output["rounds"])
        return output["stopped"] in ("complete", "max_loop", "nothing_new") and not failed and not output["notes"]

    async def close(self) -> None:
        """Close the indexes that the tool opened. The runtime calls it when it closes."""
        self._owner = None
        engines = self._engines.pop(asyncio.get_running_loop(), None)
        if engines is not None:
            await engines.close()

    async def _search(self, bound: Mapping[str, Any], ctx: ToolContext, machines: list[Machine]) -> dict[str, Any]:
        records = await ctx.checkpoints()
        async with self._loop_engines().options() as engines:
            budget = _fit_budget(self.setup.budget, ctx.time_left)
            machine = build_search(
                bound["query"],
                **{**_search_options(self.setup), **engines, "max_loop": bound["max_loop"], "budget": budget},
                checkpoints=_CallCheckpoints(records, ctx),
                request_id=ctx.call_id,
            )
            machines.append(machine)
            last = await self._run_to_end(machine, ctx, len(_STAGES) * bound["max_loop"] + 1)
        failure = machine.failure
        if failure is not None:
            spent = isinstance(failure, SearchFailed) and failure.details.get("spent") is True
            if spent and budget.max_seconds < self.setup.budget.max_seconds:
                await asyncio.Event().wait()  # the call's time is over: let its timeout end it, with that reason
            raise failure
        assert machine.result is not None, "it ended with a result or a failure"
        usage = machine.result.usage
        if usage.total or usage.cost:
            ctx.spend(usd=usage.cost, tokens=usage.total, key="models")
        output = _output(last, machine.result, self.setup.max_documents)
        if self.setup.whole:
            output["artifact"] = await ctx.put_artifact(encode(machine.result.to_json()))
        return output

    async def _run_to_end(self, machine: Machine, ctx: ToolContext, total: int) -> Message:
        """Run the search and emit its messages; returns the last one."""
        last: Message = {}
        async with aclosing(machine.stream()) as messages:
            async for last in messages:
                if last["messageType"] == "state":  # first: a client that gets progress does not count events instead
                    ctx.progress(_step(last, total), total, last["message"])
                ctx.emit(_event(last, self.setup.max_documents))
        return last

    # The function.

    @asynccontextmanager
    async def _started(self, question: str, given: SearchOptions) -> AsyncIterator[Machine]:
        """The machine of one search. An index that is opened for it is closed after it."""
        refuse_unknown(given, SearchOptions.__annotations__, self.name)
        own = Engines(self.setup)
        try:
            if given.keys() & {"engine", "engines"}:
                yield build_search(question, **{**_search_options(self.setup), **given})
            else:
                async with own.options() as engines:
                    yield build_search(question, **{**_search_options(self.setup), **engines, **given})
        finally:
            await own.close()

    def _loop_engines(self) -> Engines:
        loop = asyncio.get_running_loop()
        engines = self._engines.get(loop)
        if engines is None:
            engines = self._engines[loop] = Engines(self.setup)
        return engines


class _CallCheckpoints:
    """Saves the checkpoints of a search as checkpoints of its call."""

    def __init__(self, records: Mapping[str, bytes], ctx: ToolContext) -> None:
        self._records = records
        self._ctx = ctx

    def load(self) -> Mapping[str, bytes]:
        return self._records

    async def save(self, key: str, data: bytes) -> None:
        try:
            await self._ctx.checkpoint(key, data)
        except (UsageError, StoreUnavailable) as error:  # too large, or the store is down: the search goes on
            self._ctx.note(
                f"The checkpoint {key} was not saved; after a crash this step is repeated. {error.message}",
                level="warning",
            )


async def _send_heartbeats(ctx: ToolContext, idle: float | None, machines: list[Machine]) -> None:
    """Send heartbeats except while engines are asked. Other stages have limits of their own. While engines are asked, only their
    answers count as activity, so engines that are silent for `idle_timeout` end the call."""
    every = _HEARTBEAT if idle is None else min(_HEARTBEAT, idle / 3)
    while True:
        await asyncio.sleep(every)
        if all(one.state is not SearchState.SEARCHING for one in machines):
            ctx.heartbeat()


def _fit_budget(budget: Budget, left: float | None) -> Budget:
    """The budget within the time of the call, so that a short call still ends with an answer."""
    if left is None:
        return budget
    return msgspec.structs.replace(
        budget,
        max_seconds=min(budget.max_seconds, max(round(_ROUNDS_SHARE * left, 2), 0.01)),
        synthesizing=min(budget.synthesizing, max(round(_ANSWER_SHARE * left, 2), 0.01)),
    )


def _search_options(setup: Setup) -> dict[str, Any]:
    """The options of a search that the set-up has, without its engines."""
    names = ("model", "brief", "planner", "analyzer", "synthesizer", "ranker", "max_loop", "k", "budget")
    values = {name: getattr(setup, name) for name in (*names, "max_page_size")}
    return {name: value for name, value in values.items() if value is not None}


def _output(final: Message, result: SearchResult, max_documents: int) -> dict[str, Any]:
    """The output of a call. Texts of documents are cut as in messages; citations are whole."""
    plain = result.to_json()
    documents = [
        {"id": one["id"], "title": one["title"], "score": one["relevance_score"], **one}
        for one in final["documents"][:max_documents]
    ]
    question, found = plain.pop("question"), plain.pop("documents")
    first = {name: plain.pop(name) for name in ("answer", "citations")}
    return {**first, "documents": documents, "documents_found": len(found), **plain, "question": question}


def _event(message: Message, max_documents: int) -> Message:
    """The message as an event of the call."""
    if message["messageType"] not in ("search", "final_result") or len(encode(message)) <= _LARGE:
        return message
    if message["messageType"] == "final_result":
        return {**message, "documents": message["documents"][:max_documents], "cut": True}
    found = message["searchResult"]
    each = max(max_documents // max(len(found["docs"]), 1), 1)
    return {**message, "searchResult": {**found, "docs": [docs[:each] for docs in found["docs"]]}, "cut": True}


def _step(message: Message, total: int) -> int:
    """The number of the step; a search may end after any round, before `total`."""
    state = message["state"]
    before = len(_STAGES) * (int(message["loop"]) - 1)
    if state in _STAGES:
        return before + _STAGES.index(state)
    if state == "iterating":
        return min(before + len(_STAGES), total - 1)
    return total - 1 if state == "synthesizing" else total if state == "completed" else 0


def _schema(max_loop: int) -> Mapping[str, Any]:
    return {
        "$schema": DIALECT,
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_QUESTION,
                "description": "The question, in full.",
            },
            "max_loop": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_LOOP,
                "default": max_loop,
                "description": "Rounds of searching at most. Questions that need facts of several documents need two or three.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    }


deep_search: DeepSearch = DeepSearch(Setup())
"""Answers a question from documents, in several rounds: `await deep_search("…", engine=index)`, or as a tool of a runtime. The tool
searches the index `.clicket/search.db`; `deep_search.tool(engine=…)` returns one that searches elsewhere."""


def deep_search_stream(question: str, **options: Unpack[SearchOptions]) -> AsyncGenerator[Message, None]:
    """The messages of a deep search; the same arguments as `deep_search`."""
    return deep_search.stream(question, **options)
