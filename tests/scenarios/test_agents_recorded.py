"""How a turn is recorded: entries that arrive together are committed together, in an order that a crash cannot reverse."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.kit.examples import in_long_runs
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, asks
from tests.scenarios.cache_kit import stepped
from tests.scenarios.kit import make

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply
from clicket.model.ids import alias_of
from clicket.ports import Append, Done
from clicket.testing import ScriptedModel, StepClock


class Units:
    """The units in which a runtime hands events to its store, in order: (call id, type of each event)."""

    def __init__(self, rt: Runtime) -> None:
        self.seen: list[tuple[str, list[str]]] = []
        journal = rt.engine.journal
        self._append = journal._append
        journal._append = self._note

    def _note(self, change: Append, done: Done) -> None:
        self.seen.append((change.id, [event.data.get("entry", {}).get("e", event.type) for event in change.events]))
        self._append(change, done)

    def of(self, id: str) -> list[list[str]]:
        return [kinds for call, kinds in self.seen if call == id]


async def entries(rt: Runtime, kind: str, turn: str = "turn-1") -> list[dict[str, Any]]:
    record = await rt.get(turn, thread="agent:react/t")
    found = [event.data["entry"] for event in record.events if event.type == "note" and "entry" in event.data]
    return [entry for entry in found if entry["e"] == kind]


async def test_results_and_the_answer_that_follows_at_once_are_one_unit(store: str) -> None:
    async with make([echo], store) as rt:
        units = Units(rt)
        model = ScriptedModel([[("echo", {"text": "a"})], [("echo", {"text": "b"})], "done"])
        await ReActAgent(rt, model).run("go", thread="t")
        written = units.of("turn-1")
        assert ["begun", "reply"] in written
        assert written.count(["results", "reply"]) == 2
        # No call may be durable before the reply that requests it.
        places = [alias_of(call) for call, kinds in units.seen if "reply" in kinds or "created" in kinds]
        assert places == ["turn-1", "turn-1", "react.1.1.1", "turn-1", "react.1.2.1", "turn-1"]


async def test_results_do_not_wait_for_an_answer_that_takes_long(store: str) -> None:
    thinking = Gate()

    class Slow(ScriptedModel):
        async def chat(self, request: Any) -> Any:
            if request.messages[-1].role == "tool":
                await thinking()
            return await super().chat(request)

    async with make([echo], store) as rt:
        running = asyncio.ensure_future(ReActAgent(rt, Slow([[("echo", {})], "done"])).run("go", thread="t"))
        await thinking.reached.wait()

        async def told() -> bool:
            return len(await entries(rt, "results")) == 1

        await eventually(told)
        thinking.open()
        assert (await running).text == "done"


async def test_a_call_that_ends_before_others_does_not_wait_for_them(store: str) -> None:
    waiting = Gate()

    @tool
    async def wait() -> str:
        await waiting()
        return "waited"

    async with make([echo, wait], store) as rt:
        model = ScriptedModel([[("echo", {"text": "a"}), ("wait", {}), ("echo", {"text": "b"})], "done"])
        running = asyncio.ensure_future(ReActAgent(rt, model).run("go", thread="t"))
        await waiting.reached.wait()

        async def told() -> bool:
            return sum(len(entry["items"]) for entry in await entries(rt, "results")) == 2

        await eventually(told)
        waiting.open()
        result = await running
        found = [item["text"] for entry in await entries(rt, "results") for item in entry["items"]]
        assert sorted(found) == ["a", "b", "waited"], "each once"
        assert [m.content for m in result.messages if m.role == "tool"] == ["a", "waited", "b"]


async def test_calls_that_end_together_are_one_entry(store: str) -> None:
    async with stepped([echo], store, StepClock()) as rt:  # no call runs out of time in its iteration of the loop
        model = ScriptedModel([[("echo", {"text": str(n)}) for n in range(5)], "done"])
        await ReActAgent(rt, model).run("go", thread="t")
        sizes = [len(entry["items"]) for entry in await entries(rt, "results")]
        # On SQLite a chore may hold the file while the first of them ends: then that one is an entry, and the others are the next.
        assert sizes == [5] if store.startswith("memory") else sum(sizes) == 5 > len(sizes)


MANY = in_long_runs(1_000, else_=200)


async def test_many_threads_side_by_side(store: str) -> None:
    ran: list[str] = []

    @tool
    async def visit(name: str) -> str:
        ran.append(name)
        return name

    class Visitor(ScriptedModel):
        async def chat(self, request: Any) -> Any:
            last = request.messages[-1]
            return (
                asks(("visit", f'{{"name": "{last.content}"}}'))
                if last.role == "user"
                else ChatReply(text=last.content)
            )

    async with make([visit], store) as rt:
        agent = ReActAgent(rt, Visitor([]))
        names = [f"n{number}" for number in range(MANY)]
        results = await asyncio.gather(*(agent.run(name, thread=name) for name in names))
        assert [result.text for result in results] == names
        assert sorted(ran) == sorted(names), "each once"
        assert rt.held_calls() == []
