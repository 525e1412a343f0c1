"""Messages that are sent to a thread: stored, taken in their order, heard by the running turn, held, taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.held_store import HeldStore
from tests.kit.tools import echo
from tests.kit.waiting import eventually
from tests.scenarios.agent_kit import Gate, Says
from tests.scenarios.kit import make

from clicket import Runtime
from clicket.agents import AgentBusy, Change, Check, ReActAgent, Refuse
from clicket.agents.entries import Ended
from clicket.agents.mailbox import Mailbox, QueuedMessage
from clicket.agents.turn import Turn
from clicket.errors import Conflict, QueueFull, UsageError
from clicket.model.chat import ChatRequest
from clicket.testing import ScriptedModel


def said(request: ChatRequest) -> list[str]:
    return [message.content for message in request.messages if message.role == "user"]


def answering(request: ChatRequest) -> str:
    return f"answer to {said(request)[-1]}"


async def turns(agent: ReActAgent) -> list[tuple[str, str]]:
    return [(turn.messages[0].content, turn.text) for turn in (await agent.history("t")).turns]


async def have_ended(agent: ReActAgent, number: int) -> None:
    async def ended() -> bool:
        return (await agent.look("t")).turns >= number

    await eventually(ended)


async def test_a_message_to_a_quiet_thread_is_a_turn(store: str) -> None:
    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answering))
        sent = await agent.send("hello", thread="t", id="one")
        assert (sent.id, sent.turn) == ("one", 1)
        result = await agent.wait("t", 1)
        assert result is not None
        assert result.text == "answer to hello"
        assert (await agent.send("hello", thread="t", id="one")).turn == 1
        with pytest.raises(Conflict, match="another message"):
            await agent.send("hello you", thread="t", id="one")
        assert await agent.queued("t") == []
        assert len(await turns(agent)) == 1


async def test_messages_to_a_busy_thread_are_turns_in_their_order(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if said(request)[-1] == "first":
            await gate()
        return answering(request)

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        for text in ("second", "third"):
            assert (await agent.send(text, thread="t", id=text)).turn is None
        assert [message.text for message in await agent.queued("t")] == ["second", "third"]
        assert (await agent.send("second", thread="t", id="second")).turn is None
        with pytest.raises(Conflict):
            await agent.send("another", thread="t", id="second")
        with pytest.raises(AgentBusy):
            await agent.run("no", thread="t")
        assert await agent.unsend("third", "t")
        assert not await agent.unsend("third", "t")
        await agent.send("fourth", thread="t")
        gate.open()
        await have_ended(agent, 3)
        assert [message for message, _ in await turns(agent)] == ["first", "second", "fourth"]
        assert not await agent.unsend("second", "t")
        assert await agent.queued("t") == []


async def test_now_is_read_with_the_next_request_of_the_running_turn(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> Any:
        if request.messages[-1].role == "user" and said(request) == ["first"]:
            await gate()
            return [("echo", '{"text": "a"}')]
        return answering(request)

    async with make([echo], store) as rt:
        model = Says(answer)
        agent = ReActAgent(rt, model)
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        assert (await agent.send("and quickly", thread="t", when="now", id="n")).turn is None
        gate.open()
        await have_ended(agent, 1)
        assert [m.role for m in model.requests[1].messages] == ["user", "assistant", "tool", "user"]
        assert said(model.requests[1]) == ["first", "and quickly"]
        assert (await agent.look("t")).text == "answer to and quickly"
        assert await agent.queued("t") == []
        assert (await agent.send("and quickly", thread="t", when="now", id="n")).turn == 1
        assert (await agent.run("and quickly", thread="t", id="n")).turn == 1
        with pytest.raises(Conflict, match="another message"):
            await agent.run("and slowly", thread="t", id="n")
        assert (await agent.look("t")).turns == 1, "sent again, it is the same message"
        events = [event async for event in agent.events("t")]
        assert [e.data.get("id") for e in events if e.type == "message" and e.data["text"] == "and quickly"] == ["n"]


async def test_now_that_comes_after_the_last_request_is_the_next_turn(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if len(said(request)) == 1:
            await gate()
        return answering(request)

    async with make([], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        await agent.send("late", thread="t", when="now")
        gate.open()
        await have_ended(agent, 2)
        assert await turns(agent) == [("first", "answer to first"), ("late", "answer to late")]


async def test_an_interruption_ends_the_turn_and_goes_before_the_others(store: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if said(request)[-1] == "first":
            await gate()
        return answering(request)

    async with make([], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        await agent.send("second", thread="t")
        sent = await agent.send("stop that", thread="t", when="interrupt")
        assert sent.turn == 2
        await have_ended(agent, 3)
        assert [message for message, _ in await turns(agent)] == ["first", "stop that", "second"]
        assert (await agent.history("t")).turns[0].stopped == "cancelled"


async def test_an_interruption_that_was_cut_off_is_made_when_it_is_sent_again(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if said(request)[-1] in ("first", "third"):
            await gate()
        return answering(request)

    async def cut_off(*_: object) -> None:
        raise ConnectionError("the process dies after the message is stored")

    async with make([], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        with monkeypatch.context() as patch, pytest.raises(ConnectionError):
            patch.setattr("clicket.agents.turn_start._interrupt", cut_off)
            await agent.send("stop that", thread="t", when="interrupt", id="m")
        assert (await agent.send("stop that", thread="t", when="interrupt", id="m")).turn == 2
        await agent.wait("t", 2)
        gate.reached.clear()
        await agent.begin("third", thread="t")
        await gate.reached.wait()
        assert (await agent.send("stop that", thread="t", when="interrupt", id="m")).turn == 2  # and ends no later turn
        gate.open()
        await have_ended(agent, 3)
        assert [each.stopped for each in (await agent.history("t")).turns] == ["cancelled", "finished", "finished"]


async def test_an_id_of_a_message_that_waits_is_no_other_messages() -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        await gate()
        return answering(request)

    async with make([]) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        await agent.send("second", thread="t", id="m")
        await agent.stop("t")
        await agent.wait("t", 1)
        with pytest.raises(Conflict, match="another message"):
            await agent.run("something else", thread="t", id="m")
        gate.open()
        assert (await agent.run("second", thread="t", id="m")).text == "answer to second"
        assert await agent.queued("t") == []


@pytest.mark.parametrize("again", ["send", "run", "resume"])
async def test_a_stop_holds_the_queue(store: str, again: str) -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if said(request)[-1] == "first":
            await gate()
        return answering(request)

    async with make([], store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        await agent.send("second", thread="t")
        assert await agent.stop("t")
        await agent.wait("t", 1)
        await rt.recover()
        assert [message.text for message in await agent.queued("t")] == ["second"]
        match again:
            case "send":
                await agent.send("third", thread="t")
            case "run":
                await agent.run("third", thread="t")
            case _:
                assert await agent.resume("t") is None
        expected = {
            "send": ["first", "second", "third"],
            "run": ["first", "third", "second"],
            "resume": ["first", "second"],
        }
        await have_ended(agent, len(expected[again]))
        assert [message for message, _ in await turns(agent)] == expected[again]


async def test_a_message_that_a_check_changes_is_the_same_when_it_is_sent_again() -> None:
    async with make([]) as rt:
        agent = ReActAgent(
            rt, Says(answering), checks=[Check(lambda turn, text: Change(text.upper()), on="input", name="loud")]
        )
        assert (await agent.run("hello", thread="t", id="one")).text == "answer to HELLO"
        assert (await agent.send("hello", thread="t", id="one")).turn == 1


async def test_options_of_a_message_are_those_of_its_turn() -> None:
    async with make([echo]) as rt:
        model = Says(lambda r: f"{r.messages[0].content} {len(r.tools)}")
        agent = ReActAgent(rt, model, system="Be kind.")
        await agent.send("a", thread="t", system="Be brief.", tools=[])
        await have_ended(agent, 1)
        assert (await agent.look("t")).text == "Be brief. 0"
        with pytest.raises(UsageError, match="model"):
            await agent.send("b", thread="t", model=model)


@pytest.mark.parametrize("wrong", [{"when": "later"}, {"id": ""}, {"modle": 1}])
async def test_mistakes_are_told_and_nothing_is_sent(wrong: dict[str, Any]) -> None:
    async with make() as rt:
        agent = ReActAgent(rt, ScriptedModel([]))
        with pytest.raises(UsageError):
            await agent.send("a", thread="t", **wrong)
        assert await agent.queued("t") == []


async def test_another_process_works_the_queue_off(sqlite: str) -> None:
    gate = Gate()
    first: Runtime = make([], sqlite, close_timeout=0.0)
    async with first:
        agent = ReActAgent(first, Says(lambda _: gate()))
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        await agent.send("second", thread="t")
        await agent.send("now then", thread="t", when="now")
    async with make([], sqlite) as rt:
        model = Says(answering)
        agent = ReActAgent(rt, model)
        await rt.recover()
        await have_ended(agent, 2)
        assert said(model.requests[0]) == ["first", "now then"]
        assert [message for message, _ in await turns(agent)] == ["first", "second"]


async def test_a_thread_that_is_forgotten_has_no_queue() -> None:
    async with make() as rt:
        agent = ReActAgent(rt, Says(answering))
        await agent.send("a", thread="t", id="one")
        await have_ended(agent, 1)
        await agent.forget("t")
        assert (await agent.send("b", thread="t", id="one")).turn == 2


async def test_a_queue_is_bounded() -> None:
    gate = Gate()

    async def answer(request: ChatRequest) -> str:
        if said(request)[-1] == "first":
            await gate()
        return answering(request)

    async with make() as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t", id="x")
        await gate.reached.wait()
        for number in range(100):
            await agent.send(f"message {number}", thread="t", id=f"id {number}")
        with pytest.raises(QueueFull, match="100 messages wait"):
            await agent.send("one too many", thread="t")
        for number in range(2, 100):
            assert await agent.unsend(f"id {number}", "t")
        gate.open()
        await have_ended(agent, 3)
        assert [message for message, _ in await turns(agent)] == ["first", "message 0", "message 1"]


async def test_a_message_that_is_taken_back_just_before_its_turn_begins_is_in_no_turn(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, answers = Gate(), list[bool]()
    take = Mailbox.take

    async def answer(request: ChatRequest) -> str:
        await gate()
        return answering(request)

    async with make([], store) as rt:
        agent = ReActAgent(rt, Says(answer))

        async def take_late(mailbox: Mailbox, host: Any, message: QueuedMessage) -> bool:
            if not answers:
                answers.append(await agent.unsend("second", "t"))
            return await take(mailbox, host, message)

        monkeypatch.setattr(Mailbox, "take", take_late)
        await agent.begin("first", thread="t")
        await gate.reached.wait()
        await agent.send("second", thread="t", id="second")
        await agent.send("third", thread="t", id="third")
        gate.open()
        await have_ended(agent, 2)
        assert answers == [True]
        assert [message for message, _ in await turns(agent)] == ["first", "third"]
        assert not await agent.unsend("third", "t"), "a turn has taken it"


async def test_a_heard_message_is_in_no_other_turn_although_its_turn_ends_before_it_reads_it_again(
    tmp_path: Path,
) -> None:
    checked, asked, url = Gate(), Gate(), f"sqlite:///{tmp_path / 'calls.db'}"

    async def ask(request: ChatRequest) -> str:
        await asked()
        return answering(request)

    async def passes(turn: Any, text: str) -> None:
        if text == "first":
            await checked()

    async with make([], url) as rt:
        agent = ReActAgent(rt, Says(ask), checks=[Check(passes, on="input", name="rule")])
        await agent.begin("first", thread="t")
        await checked.reached.wait()
        await agent.send("and quickly", thread="t", when="now", id="n")
        checked.open()
        await asked.reached.wait()  # the model is asked with both
    async with make([], url) as rt:
        agent = ReActAgent(
            rt, Says(answering), checks=[Check(lambda turn, text: Refuse("no"), on="input", name="rule")]
        )
        await agent.resume("t")
        await have_ended(agent, 1)
        assert await agent.queued("t") == []
        await agent.send("last", thread="t")
        await have_ended(agent, 2)
        written = [turn.as_written for turn in (await agent.history("t")).turns]
        assert [messages[0].content for messages in written] == ["first", "last"]


async def test_a_heard_message_waits_until_it_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn that heard it is stopped before that is durable: if its process dies now, another turn reads the message."""
    asked, ends, store, write = Gate(), asyncio.Event(), HeldStore(tmp_path / "calls.db"), Turn.write

    async def answer(request: ChatRequest) -> Any:
        await asked()
        store.holds = "turn-1"
        return [("echo", '{"text": "a"}')]

    def noted(turn: Turn, text: str, entry: Any, *rest: Any, **named: Any) -> None:
        write(turn, text, entry, *rest, **named)
        if isinstance(entry, Ended):
            ends.set()

    monkeypatch.setattr(Turn, "write", noted)
    async with Runtime([echo], store=store) as rt:
        agent = ReActAgent(rt, Says(answer))
        await agent.begin("first", thread="t")
        await asked.reached.wait()
        await agent.send("and quickly", thread="t", when="now", id="n")
        asked.open()
        await store.reached.wait()
        stop = asyncio.create_task(agent.stop("t"))
        await ends.wait()
        assert [message.id for message in await agent.queued("t")] == ["n"]
        store.let_go()
        assert await stop


@pytest.mark.parametrize("pause", ["is_held", "take"])
async def test_a_message_that_is_heard_just_before_it_would_begin_a_turn_begins_none(
    store: str, monkeypatch: pytest.MonkeyPatch, pause: str
) -> None:
    """A sender has looked at the queue, or has marked the message as taken, and is slow. A whole turn comes first, which hears it."""
    gate, first, second, original = Gate(), Gate(), Gate(), getattr(Mailbox, pause)

    async def slow(mailbox: Mailbox, host: Any, about: Any) -> Any:
        found = await original(mailbox, host, about)
        if not gate.reached.is_set():
            await gate()
        return found

    async def answer(request: ChatRequest) -> Any:
        await (second if "and quickly" in said(request) else first)()
        return answering(request) if second.reached.is_set() else [("echo", '{"text": "a"}')]

    async with make([echo], store) as rt:
        agent = ReActAgent(rt, Says(answer))

        async def send() -> None:
            await agent.send("and quickly", thread="t", when="now", id="n")

        if pause == "is_held":  # the turn has heard it when it is sent again
            await agent.begin("first", thread="t")
            await first.reached.wait()
            await send()
            first.open()
            await second.reached.wait()
        monkeypatch.setattr(Mailbox, pause, slow)
        sending = asyncio.create_task(send())
        await gate.reached.wait()
        if pause == "take":
            await agent.begin("first", thread="t")
            await second.reached.wait()
        second.open()
        await have_ended(agent, 1)
        gate.open()
        await sending
        assert await agent.queued("t") == []
        await agent.run("last", thread="t")
        written = [said.content for turn in (await agent.history("t")).turns for said in turn.messages]
        assert written.count("and quickly") == 1
