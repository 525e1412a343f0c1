"""The deep search: a function, and a tool. As a tool it says what it does while it goes on, and what it has finished is journaled:
after a crash no search that ended is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Unpack
from weakref import WeakKeyDictionary, ref

import msgspec

from clicket.errors import InvalidInput, StoreUnavailable, UsageError, did_you_mean
from clicket.kernel import SearchState
from clicket.model.codec import encode
from clicket.search.dossier import SearchResult
from clicket.search.run.budget import Budget
from clicket.search.run.failure import SearchFailed
from clicket.search.run.machine import Machine
from clicket.search.run.messages import Message
from clicket.search.run.preparing import MAX_QUESTION, prepare
from clicket.search.tool.options import MAX_LOOP, SearchOptions, Setup, setup_of
from clicket.search.tool.output import output_of, shown
from clicket.search.tool.shelf import Shelf, edition_of
from clicket.tools import Options, ToolContext, Traits, defaults, make_options
from clicket.tools.schema import DIALECT

__all__ = ["DeepSearch"]

_BEAT = 5.0
"""Seconds between heartbeats."""
_ROUNDS, _ANSWER = 0.8, 0.15
"""Of a call's time: what the rounds may take, and what the answer."""
_STAGES = ("decomposing", "searching", "analyzing")


class DeepSearch:
    """`await deep_search("question", engine=index)` gives a `SearchResult`; in `Runtime(tools=[deep_search])` it is a tool.

    `deep_search.tool(engine=index, max_loop=2)` gives one with other options.
    """

    is_async = True
    traits = Traits()
    run_sync = None
    output_schema = None
    sweep = defaults.no_sessions

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.name: str = setup.name
        self.description: str = setup.description
        self.input_schema: Mapping[str, Any] = _schema(setup.max_loop)
        self.options: Options = make_options(f"tool {setup.name!r}", setup.tool_options())
        self._owner: ref[object] | None = None
        self._shelves: WeakKeyDictionary[asyncio.AbstractEventLoop, Shelf] = WeakKeyDictionary()

    def tool(self, **options: Any) -> DeepSearch:
        """The same with these options in place of its own: `deep_search.tool(engine=index, model=model)`.

        Those of a search (`engine`, `engines`, `model`, `planner`, `analyzer`, `synthesizer`, `ranker`, `max_loop`, `k`,
        `budget`, `max_page_size`), and: `index` (a file, where no engine is given), `embedder` for it, `max_documents` (20, in
        the output), `whole` (keep the whole result as an artifact), `timeout` (600 s), `idle_timeout` (30 s), `cache` (2 h),
        `name`, `description`, and `options` for everything else that `@tool` takes.
        """
        return type(self)(setup_of(options, self.setup))

    async def __call__(self, question: str, **options: Unpack[SearchOptions]) -> SearchResult:
        """The result. Options: `engine`, `engines`, `model`, `max_loop`, `budget` …; those not given are as this tool has them."""
        async with self._begun(question, options) as machine:
            return await machine.finish()

    async def stream(self, question: str, **options: Unpack[SearchOptions]) -> AsyncGenerator[Message, None]:
        """The messages of the search as they come; the last one is `final_result` or `error`."""
        async with self._begun(question, options) as machine, aclosing(machine.stream()) as messages:
            async for message in messages:
                yield message

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    # The tool.

    def owned_by(self, owner: object) -> DeepSearch:
        """This tool, for the tools of one runtime; for a second one that is there at the same time, one just like it: what one
        of them closes stays open for the other."""
        other = self._owner() if self._owner is not None else None
        if other is not None and other is not owner:
            return type(self)(self.setup).owned_by(owner)
        self._owner = ref(owner)
        return self

    def bind(self, arguments: dict[str, Any]) -> dict[str, Any]:
        query = str(arguments["query"]).strip()
        if not query:
            raise InvalidInput([{"path": "/query", "message": "it is empty"}], "Say what is to be found.")
        return {"query": query, "max_loop": int(arguments.get("max_loop", self.setup.max_loop))}

    async def run(self, bound: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        work = _Work()
        beating = asyncio.create_task(_beat(ctx, self.options.idle_timeout, work))
        try:
            return await self._search(bound, ctx, work)
        finally:
            beating.cancel()
            await asyncio.wait((beating,))

    bind_plain = defaults.never_plain

    def data_version(self) -> str:
        """Changes with what is searched, as far as engines can tell: an answer of an index that has changed is not served again."""
        setup = self.setup
        told = [edition_of(one) for one in (setup.engine, *setup.engines) if one is not None]
        return " ".join([*told, *([edition_of(setup.index)] if setup.needs_index else [])])

    def is_cacheable(self, output: Any) -> bool:
        """May it be cached? Not what a failure or a budget has made smaller: next time there may be more."""
        failed = any(one["failed"] for one in output["rounds"])
        return output["stopped"] in ("complete", "max_loop", "nothing_new") and not failed and not output["notes"]

    async def close(self) -> None:
        """Close what the tool has opened; called when the runtime closes."""
        self._owner = None
        shelf = self._shelves.pop(asyncio.get_running_loop(), None)
        if shelf is not None:
            await shelf.close()

    async def _search(self, bound: Mapping[str, Any], ctx: ToolContext, work: _Work) -> dict[str, Any]:
        kept = await ctx.checkpoints()
        async with self._shelf().engines() as engines:
            budget = _fitted(self.setup.budget, ctx.time_left)
            machine = work.machine = prepare(
                bound["query"],
                **{**_own(self.setup), **engines, "max_loop": bound["max_loop"], "budget": budget},
                checkpoints=_Journaled(kept, ctx),
                request_id=ctx.call_id,
            )
            last = await self._told(machine, ctx, len(_STAGES) * bound["max_loop"] + 1)
        if machine.result is None:
            assert machine.failure is not None, "it ended with a result or a failure"
            if budget.max_seconds < self.setup.budget.max_seconds and _is_late(machine.failure):
                await asyncio.Event().wait()  # the call's own time was too short, and what ends it says so
            raise machine.failure
        output = output_of(last, machine.result, self.setup.max_documents)
        if self.setup.whole:
            output["artifact"] = await ctx.put_artifact(encode(machine.result.to_json()))
        return output

    async def _told(self, machine: Machine, ctx: ToolContext, total: int) -> Message:
        """Run it to its end, with all it says; the last message."""
        last: Message = {}
        async with aclosing(machine.stream()) as messages:
            async for last in messages:
                if last["messageType"] == "state":  # first, so that who counts steps does not count messages
                    ctx.progress(_step(last, total), total, last["message"])
                ctx.emit(shown(last, self.setup.max_documents))
        return last

    # What is searched.

    @asynccontextmanager
    async def _begun(self, question: str, given: SearchOptions) -> AsyncIterator[Machine]:
        """For callers: an index that is opened for the search is closed after it."""
        known = SearchOptions.__annotations__
        for name in (one for one in given if one not in known):
            raise UsageError(
                f"{self.name}: unknown option {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
            )
        shelf = Shelf(self.setup)
        try:
            if given.keys() & {"engine", "engines"}:
                yield prepare(question, **{**_own(self.setup), **given})
            else:
                async with shelf.engines() as engines:
                    yield prepare(question, **{**_own(self.setup), **engines, **given})
        finally:
            await shelf.close()

    def _shelf(self) -> Shelf:
        loop = asyncio.get_running_loop()
        shelf = self._shelves.get(loop)
        if shelf is None:
            shelf = self._shelves[loop] = Shelf(self.setup)
        return shelf


class _Journaled:
    """Checkpoints of a search are those of its call."""

    def __init__(self, kept: Mapping[str, bytes], ctx: ToolContext) -> None:
        self._kept = kept
        self._ctx = ctx

    def load(self) -> Mapping[str, bytes]:
        return self._kept

    async def save(self, key: str, data: bytes) -> None:
        try:
            await self._ctx.checkpoint(key, data)
        except (UsageError, StoreUnavailable) as error:  # too much, or nowhere to put it: worth no search's end
            self._ctx.note(f"{key} is not kept: after a crash it is done again. {error.message}", level="warning")


class _Work:
    """What a call of the tool is doing."""

    machine: Machine | None = None

    @property
    def waits_for_engines(self) -> bool:
        return self.machine is not None and self.machine.state is SearchState.SEARCHING


async def _beat(ctx: ToolContext, idle: float | None, work: _Work) -> None:
    """Opening an index, planning and answering have limits of their own, and count as activity. Searching does not: there each answer
    of an engine is activity, and engines that are silent for `idle_timeout` end the call."""
    every = _BEAT if idle is None else min(_BEAT, idle / 3)
    while True:
        await asyncio.sleep(every)
        if not work.waits_for_engines:
            ctx.heartbeat()


def _fitted(budget: Budget, left: float | None) -> Budget:
    """A call with less time than the budget still ends with an answer: of what was found until then."""
    if left is None:
        return budget
    return msgspec.structs.replace(
        budget,
        max_seconds=min(budget.max_seconds, max(round(_ROUNDS * left, 2), 0.01)),
        synthesizing=min(budget.synthesizing, max(round(_ANSWER * left, 2), 0.01)),
    )


def _is_late(failure: BaseException) -> bool:
    """Did no engine answer because there was no time left?"""
    return isinstance(failure, SearchFailed) and failure.details.get("spent") is True


def _own(setup: Setup) -> dict[str, Any]:
    """The options of a search that a set-up names, but for its engines."""
    names = ("model", "planner", "analyzer", "synthesizer", "ranker", "embedder", "max_loop", "k", "budget")
    values = {name: getattr(setup, name) for name in (*names, "max_page_size")}
    return {name: value for name, value in values.items() if value is not None}


def _step(message: Message, total: int) -> int:
    """How far a search is at most: it may end after any round."""
    state, before = message["state"], len(_STAGES) * (int(message["loop"]) - 1)
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
