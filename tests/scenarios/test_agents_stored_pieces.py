"""`deltas="stored"`: readers in any process get the pieces of an answer until it is on record, whole and once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from tests.kit.waiting import eventually
from tests.postgres_server import PostgresServer
from tests.redis_server import RedisServer
from tests.scenarios.agent_kit import Gate, Says
from tests.scenarios.kit import make

from clicket import Runtime, ToolContext, tool
from clicket.agents import AgentEvent, PlanExecuteAgent, ReActAgent
from clicket.agents.memory import PIECES
from clicket.agents.pieces import PAGE, WRITE_EVERY
from clicket.errors import RetryableError, StoreUnavailable, UsageError
from clicket.model.chat import ChatReply, ChatRequest, Delta, ToolUse
from clicket.models import Fallback
from clicket.testing import ScriptedModel

HALF = "\ud83d"
"""Of a character: a model may break it between two pieces."""
TEXT = "".join(f"Wort {number}: äöü 漢字 🙂. " for number in range(60))
STEPS = range(1, 8)


class Typist(Says):
    """Gives its answers in pieces of `size` characters. `between`: awaited before each piece, with the number of characters so far."""

    def __init__(
        self, answer: Callable[[ChatRequest], Any], between: Callable[[int], Any], size: int = 5, name: str = "typist"
    ) -> None:
        super().__init__(answer)
        self.name = name
        self._between = between
        self._size = size

    async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
        reply = await self.chat(request)
        for at in range(0, len(reply.text), self._size):
            await self._between(at)
            tell(Delta("text", reply.text[at : at + self._size]))
        await self._between(len(reply.text))
        return reply


def held_at(place: int, gate: Gate) -> Callable[[int], Any]:
    async def between(at: int) -> None:
        if at == place:
            await gate()
        await asyncio.sleep(0)

    return between


@pytest.fixture(scope="module", autouse=True)
def remote(postgres: PostgresServer, redis: RedisServer) -> dict[str, str]:
    """The servers start before the first test, so that they do not count as left behind by one."""
    return {"postgres": postgres.url(), "redis": redis.url}


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def shared(request: pytest.FixtureRequest, remote: dict[str, str], sqlite: str) -> str:
    """The URL of a store that several runtimes share."""
    return remote.get(request.param, sqlite)


async def test_the_output_of_a_tool_reaches_a_reader_in_another_process(sqlite: str) -> None:
    gate = Gate()

    @tool
    async def crawl(ctx: ToolContext) -> str:
        for page in range(3):
            ctx.emit(f"page {page}. ")
        await gate()
        ctx.emit("the last page")
        return "done"

    async with pair(sqlite, crawl) as (one, two):
        agent = ReActAgent(one, ScriptedModel([[("crawl", {})], "all read"]), deltas="stored")
        await agent.begin("go", thread="t")
        outputs: list[AgentEvent] = []
        async for event in ReActAgent(two, ScriptedModel([])).events("t"):
            if event.type == "tool_progress" and event.data["kind"] == "output":
                outputs.append(event)
                if len(outputs) == 3:
                    gate.open()
        assert [event.data["content"] for event in outputs[:3]] == ["page 0. ", "page 1. ", "page 2. "]
        assert [event.data["seq"] for event in outputs] == sorted({event.data["seq"] for event in outputs})


@asynccontextmanager
async def pair(store: str, *tools: Any) -> AsyncIterator[tuple[Runtime, Runtime]]:
    async with make(tools, store) as one, make(tools, store) as two:
        yield one, two


async def until_text(agent: ReActAgent, thread: str, size: int, after: str = "") -> list[AgentEvent]:
    """The events of a reader that leaves when it has so many characters."""
    found: list[AgentEvent] = []
    have = 0
    async with aclosing(agent.events(thread, after=after)) as events:  # type: ignore[type-var]
        async for event in events:
            found.append(event)
            have += len(event.data["text"]) if event.type == "delta" else 0
            if have >= size:
                break
    return found


def text_of(events: Sequence[AgentEvent]) -> str:
    return "".join(event.data["text"] for event in events if event.type == "delta")


async def stored(rt: Runtime) -> list[Any]:
    return await rt.store.documents(PIECES)


async def test_a_reader_in_another_process_gets_the_pieces_and_then_the_message(shared: str) -> None:
    gate = Gate()
    async with pair(shared) as (one, two):
        model = Typist(lambda _: TEXT, held_at(500, gate))
        agent = ReActAgent(one, model, deltas="stored")
        reader = ReActAgent(two, model)  # what the reading process would do itself does not matter
        await agent.begin("go", thread="t")
        first = await until_text(reader, "t", 500)
        assert text_of(first) == TEXT[:500]
        assert [event.id for event in first if event.type == "delta"][-1] == "1-2.0.500"
        again = await until_text(reader, "t", 200)
        assert text_of(again) == TEXT[: len(text_of(again))], "another reader gets them from the beginning"
        gate.open()
        rest = [event async for event in reader.events("t", after=first[-1].id)]
        (message,) = [event for event in rest if event.type == "message"]
        assert message.data["text"] == TEXT
        assert TEXT[500:].startswith(text_of(rest)), "nothing twice"

        async def removed() -> bool:
            return not await stored(one)

        await eventually(removed)
        late = [event async for event in reader.events("t", after=first[-1].id)]
        assert [event.type for event in late if event.type in ("delta", "message")] == ["message"]


async def test_a_reader_resumes_in_the_middle_of_an_answer_in_the_process_of_the_turn(store: str) -> None:
    gate = Gate()
    async with make((), store) as rt:
        agent = ReActAgent(rt, Typist(lambda _: TEXT, held_at(500, gate)), deltas="stored")
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        first = await until_text(agent, "t", 123)
        rest = asyncio.ensure_future(until_text(agent, "t", len(TEXT) - len(text_of(first)), after=first[-1].id))
        gate.open()
        assert text_of(first) + text_of(await rest) == TEXT


async def test_an_offset_in_the_middle_of_a_piece_is_kept_to(store: str) -> None:
    gate = Gate()
    async with make((), store) as rt:
        agent = ReActAgent(rt, Typist(lambda _: TEXT, held_at(5, gate)), deltas="stored")
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        rest = asyncio.ensure_future(until_text(agent, "t", 100, after="1-2.0.7"))
        await eventually(lambda: agent._streams.feeds["", "t"].readers)
        gate.open()
        assert TEXT[7:].startswith(text_of(await rest))
        await agent.wait("t")


async def test_pieces_are_removed_when_their_answer_is_on_record_and_the_turn_goes_on(sqlite: str) -> None:
    typing, running = Gate(), Gate()

    @tool
    async def work() -> str:
        await running()
        return "done"

    def answer(request: ChatRequest) -> ChatReply:
        is_last = any(message.role == "tool" for message in request.messages)
        return ChatReply(text=TEXT, uses=() if is_last else (ToolUse(id="u", name="work", arguments="{}"),))

    async with make([work], sqlite) as rt:
        agent = ReActAgent(rt, Typist(answer, held_at(500, typing)), deltas="stored")
        await agent.begin("go", thread="t")
        await eventually(lambda: stored(rt))
        typing.open()
        await running.reached.wait()

        async def removed() -> bool:
            return not await stored(rt)

        await eventually(removed)
        running.open()
        await agent.wait("t")


def checked_reader(answers: dict[int, list[str]]) -> tuple[dict[tuple[str, int], str], Callable[[AgentEvent], None]]:
    """What a reader has of each answer; fails at the first letter that is missing, or that comes twice."""
    have: dict[tuple[str, int], str] = {}

    def take(event: AgentEvent) -> None:
        place = (event.data.get("branch", ""), event.step)
        if event.type == "delta" and event.data["kind"] == "text":
            have[place] = have.get(place, "") + event.data["text"]
            assert any(answer.startswith(have[place]) for answer in answers[event.step]), (place, have[place][-40:])
        elif event.type == "restart":
            have.pop(place, None)
        elif event.type == "message" and event.data["role"] == "assistant":
            assert event.data["text"] == answers[event.step][-1]
            have[place] = event.data["text"]

    return have, take


async def test_readers_that_leave_and_come_back_at_random_200_times_read_each_text_whole_and_once(
    shared: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clicket.agents.pieces.WRITE_EVERY", 0.01)  # or the test would take a minute
    monkeypatch.setattr("clicket.agents.event_stream._PIECES_EVERY", 0.01)
    chance = random.Random(shared)
    answers = {step: [f"void {step} " * 30, f"answer {step}: {TEXT}"] for step in STEPS}
    tried: set[int] = set()
    have, take = checked_reader(answers)

    class Flaky(Says):
        """Each of its answers breaks off once. It is at most 22 characters ahead of the reader."""

        async def stream(self, request: ChatRequest, tell: Callable[[Delta], None]) -> ChatReply:
            step = 1 + sum(message.role == "assistant" for message in request.messages)
            text = answers[step][step in tried]
            for at in range(0, len(text), 11):
                await eventually(lambda at=at: at - len(have.get(("", step), "")) <= 22)
                if at > 200 and step not in tried:
                    tried.add(step)
                    raise RetryableError("the connection broke")
                tell(Delta("text", text[at : at + 11]))
            await eventually(lambda: have.get(("", step)) == text)
            return ChatReply(
                text=text, uses=(ToolUse(id=f"u{step}", name="note", arguments="{}"),) if step < STEPS[-1] else ()
            )

    @tool
    async def note() -> str:
        return "noted"

    async with pair(shared, note) as (one, two):
        agents = [
            ReActAgent(rt, Flaky(lambda _: ""), deltas="stored", retry_delay=0.01, max_repeats=None)
            for rt in (one, two)
        ]
        await agents[0].begin("go", thread="at random")
        after, leaves, over = "", 0, False
        seen: list[AgentEvent] = []
        while not over:
            stay = chance.randrange(1, 3)
            reader = agents[chance.randrange(2)]
            async with aclosing(reader.events("at random", after=after)) as events:  # type: ignore[type-var]
                async for event in events:
                    take(event)
                    seen.append(event)
                    after = event.id or after
                    stay -= bool(event.id)
                    over = over or event.type == "final"
                    if not stay or over:
                        break
            leaves += 1
        assert {step: have["", step] for step in STEPS} == {step: texts[1] for step, texts in answers.items()}
        assert sum(event.type == "restart" for event in seen) == len(STEPS)
        assert leaves >= 200
        recorded = [event.id for event in seen if event.type != "delta" and event.id]
        assert len(recorded) == len(set(recorded)), "no recorded event twice"


# Who writes, and when.


class Slow:
    """Counts the writes of pieces to a store, and holds them back until `gate` is opened; or refuses them."""

    def __init__(self, rt: Runtime, monkeypatch: pytest.MonkeyPatch, gate: Gate | None = None, refuse: int = 0) -> None:
        self.sizes: list[int] = []
        put = rt.store.put_document

        async def slow(kind: str, key: str, body: bytes, expect: int | None) -> bool:
            if kind == PIECES:
                self.sizes.append(len(body))
                if len(self.sizes) <= refuse:
                    raise StoreUnavailable("away")
                if gate is not None:
                    await gate()
            return await put(kind, key, body, expect)

        monkeypatch.setattr(rt.store, "put_document", slow)


async def test_a_store_that_does_not_answer_delays_pieces_and_never_the_answer(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    async def between(at: int) -> None:
        if at == 500:
            await gate.reached.wait()  # a write has begun, and does not end
        await asyncio.sleep(0)

    async with pair(sqlite) as (one, two):
        slow = Slow(one, monkeypatch, gate)
        agent = ReActAgent(one, Typist(lambda _: TEXT, between), deltas="stored")
        result = await agent.run("go", thread="t")
        assert result.text == TEXT
        assert len(slow.sizes) == 1, "the model was not waited for, nor did writes pile up"
        reader = ReActAgent(two, ScriptedModel([]))
        assert [e.data["text"] async for e in reader.events("t") if e.type == "message"] == ["go", TEXT]
        gate.open()

        async def removed() -> bool:
            return not await stored(one)

        await eventually(removed)


async def test_pieces_that_could_not_be_written_are_joined_to_a_later_one(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    async with pair(sqlite) as (one, two):
        slow = Slow(one, monkeypatch, refuse=2)
        agent = ReActAgent(one, Typist(lambda _: TEXT, held_at(500, gate)), deltas="stored")
        await agent.begin("go", thread="t")
        found = await until_text(ReActAgent(two, ScriptedModel([])), "t", 500)
        assert text_of(found) == TEXT[:500]
        assert len([event for event in found if event.type == "delta"]) == 1
        assert len(slow.sizes) == 3
        gate.open()
        await agent.wait("t")


async def test_writes_are_at_most_one_in_200_ms_or_4_kib(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXT * 8

    async def between(at: int) -> None:
        await asyncio.sleep(0.0005)

    async with make((), sqlite) as rt:
        slow = Slow(rt, monkeypatch)
        agent = ReActAgent(rt, Typist(lambda _: text, between, size=20), deltas="stored")
        before = rt.host.clock.monotonic()
        await agent.run("go", thread="t")
        took = rt.host.clock.monotonic() - before
        assert 0 < len(slow.sizes) <= took / WRITE_EVERY + len(text.encode()) / PAGE + 1
        assert max(slow.sizes) < 4 * PAGE


async def test_live_writes_no_piece_and_names_no_log(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate()
    async with make((), sqlite) as one:
        slow = Slow(one, monkeypatch)
        agent = ReActAgent(one, Typist(lambda _: TEXT, held_at(500, gate)))
        gate.open()
        events = [event async for event in agent.stream("go", thread="t")]
        assert text_of(events) == TEXT
        assert {event.id for event in events if event.type == "delta"} == {""}
        record = await one.host.record("turn-1", "agent:react/t")
        assert record is not None
        assert all("log" not in (event.data.get("entry") or {}) for event in record.events)
    assert slow.sizes == []


async def test_an_answer_that_comes_at_once_is_not_written_twice(sqlite: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with make((), sqlite) as rt:
        slow = Slow(rt, monkeypatch)
        agent = ReActAgent(rt, ScriptedModel(["short"]), deltas="stored")
        assert (await agent.run("go", thread="t")).text == "short"
        assert slow.sizes == []


async def test_what_seems_to_be_a_secret_is_not_kept(sqlite: str) -> None:
    gate = Gate()
    secret = "sk-ant-api03-" + "Ab3dE6gH9j" * 9
    async with make((), sqlite) as one:
        text = f"{TEXT[:400]} {secret} {TEXT}"
        agent = ReActAgent(one, Typist(lambda _: text, held_at(1000, gate)), deltas="stored")
        await agent.begin("go", thread="t")
        await gate.reached.wait()
        log = agent._streams.feeds["", "t"].pieces
        await eventually(lambda: log is not None and not log._is_working and not log._unsaved)
        assert secret not in str(await stored(one))
        gate.open()
        await agent.wait("t")


async def test_half_a_character_is_kept_as_one_that_can_be_stored(sqlite: str) -> None:
    gate = Gate()
    async with pair(sqlite) as (one, two):
        agent = ReActAgent(one, Typist(lambda _: f"{HALF}{TEXT}", held_at(500, gate)), deltas="stored")
        await agent.begin("go", thread="t")
        found = await until_text(ReActAgent(two, ScriptedModel([])), "t", 500)
        assert text_of(found) == f"?{TEXT[:499]}"
        gate.open()
        await agent.wait("t")


def test_deltas_is_one_of_two() -> None:
    with pytest.raises(UsageError, match="deltas is 'live' or 'stored'"):
        ReActAgent(make(), ScriptedModel([]), deltas="all")  # type: ignore[arg-type]


# Void text.


async def test_after_a_fallback_the_text_of_the_first_model_is_void_for_readers_elsewhere(sqlite: str) -> None:
    gate = Gate()

    async def broken(at: int) -> None:
        if at == 300:
            await gate()
            raise RetryableError("unavailable")
        await asyncio.sleep(0)

    last = Gate()
    async with pair(sqlite) as (one, two):
        first = Typist(lambda _: "x" * 600, broken, name="first")
        second = Typist(lambda _: TEXT, held_at(500, last), name="second")
        model = Fallback(first, second, on=("unavailable", RetryableError))
        agent = ReActAgent(one, model, deltas="stored", model_retries=0)
        await agent.begin("go", thread="t")
        reader = ReActAgent(two, ScriptedModel([]))
        void = await until_text(reader, "t", 300)
        assert text_of(void) == "x" * 300
        gate.open()
        rest = await until_text(reader, "t", 500, after=void[-1].id)
        kinds = [event.type for event in rest]
        assert kinds.index("restart") < kinds.index("delta")
        assert text_of(rest) == TEXT[:500]
        fresh = await until_text(reader, "t", 500)
        assert text_of(fresh) == TEXT[:500], "who comes later never sees the void text"
        last.open()
        await agent.wait("t")


async def test_branches_of_a_plan_share_a_log_and_a_reader_gets_each_text_once(
    sqlite: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clicket.agents.pieces.WRITE_EVERY", 0.01)
    monkeypatch.setattr("clicket.agents.event_stream._PIECES_EVERY", 0.01)
    chance = random.Random(7)
    plan = (
        "plan",
        {
            "command": "create",
            "title": "both",
            "steps": [{"text": text, "depends_on": []} for text in ("left", "right")],
        },
    )
    planner = ScriptedModel([[plan], "all done"])

    async def between(at: int) -> None:
        await asyncio.sleep(0.002)

    def worker() -> Typist:
        return Typist(lambda request: f"{request.messages[-1].content[:40]} {TEXT}", between, size=9)

    async with pair(sqlite) as (one, two):
        agents = [
            PlanExecuteAgent(rt, planner, executor=worker(), deltas="stored", max_parallel=2) for rt in (one, two)
        ]
        await agents[0].begin("go", thread="t")
        have: dict[Any, str] = {}
        whole: dict[Any, str] = {}
        after, over = "", False
        while not over:
            stay = chance.randrange(1, 4)
            async with aclosing(agents[chance.randrange(2)].events("t", after=after)) as events:  # type: ignore[type-var]
                async for event in events:
                    place = (event.data.get("branch"), event.step)
                    if event.type == "delta" and event.data["kind"] == "text":
                        have[place] = have.get(place, "") + event.data["text"]
                    elif event.type == "message" and event.data["role"] == "assistant":
                        whole[place] = event.data["text"]
                    after = event.id or after
                    stay -= bool(event.id)
                    over = event.type == "final"
                    if not stay or over:
                        break
        assert len([place for place in have if place[0]]) == 2
        for place, text in have.items():
            assert whole[place].startswith(text), place
