"""Images and files in messages to agents and in results of their tools."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.kit.pictures import png

from clicket import File, Image, Runtime, tool
from clicket.agents import Change, ContextWindow, Middleware, PlanExecuteAgent, ReActAgent, Turn
from clicket.errors import Conflict, NotFound, UsageError
from clicket.model import ToolCall, ToolResult
from clicket.model.chat import ChatMessage, ChatRequest
from clicket.model.codec import encode
from clicket.model.files import FileRef
from clicket.testing import ScriptedModel, StepClock, memory_runtime


@tool
async def plot(width: int = 4) -> list[str | Image]:
    return ["a plot:", Image(png(width), name="plot.png")]


@tool
async def notes() -> File:
    return File(b"remember " * 100, "text/plain", name="notes.txt")


@tool
async def movie() -> list[File]:
    return [
        File(b"\0" * 100, "video/mp4"),
        File(png() + b"\0" * 4_000_000, name="huge.png"),
        File(b"x" * 70_000, "text/plain"),
    ]


@tool(background=True)
async def slow_plot() -> Image:
    return Image(png(9))


@tool
async def photo(number: int) -> Image:
    return Image(b"\xff\xd8\xff" + bytes([number]))


TOOLS = [plot, notes, movie, slow_plot, photo]


def seen(request: ChatRequest) -> list[bytes]:
    """The bytes of the files that a request shows, in order."""
    return [
        request.files[ref.artifact]
        for message in request.messages
        for ref in message.files
        if ref.artifact in request.files
    ]


def text_of(request: ChatRequest) -> str:
    return "\n".join(message.content for message in request.messages)


async def test_a_model_sees_the_pictures_of_a_message_and_of_results() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel([[("plot", {"width": 7})], "Two pictures.", "Still."], sees_images=True)
        agent = ReActAgent(rt, model)
        message = ["what is this?", Image(png(), name="photo.png"), "and that:", File(b"%PDF-1.7", name="a.pdf")]
        result = await agent.run(message, thread="t")
        assert seen(model.requests[0]) == [png(), b"%PDF-1.7"]
        assert seen(model.requests[1]) == [png(), b"%PDF-1.7", png(7)]
        asked = result.messages[0]
        picture, document = asked.files
        assert asked.content == f"what is this?\n{picture.line}\nand that:\n{document.line}"
        assert document.media_type == "application/pdf"
        await agent.run("and now?", thread="t")
        assert len(seen(model.requests[2])) == 3
        assert b"IHDR" not in encode(result.messages)
        assert b"IHDR" not in encode([event async for event in agent.events("t")])
        assert await rt.artifact(picture.artifact) == png()


async def test_a_model_that_reads_only_text_gets_a_line() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel([[("plot", {})], "I cannot see."])
        result = await ReActAgent(rt, model).run(Image(png(shade=3)))
        assert seen(model.requests[1]) == []
        for message in model.requests[1].messages:
            if message.role != "assistant":
                assert "not shown: this model reads only text]" in message.content
        # Another model of the same thread may see them: what is stored says nothing of this one.
        assert "not shown" not in "".join(message.content for message in result.messages)


async def test_what_no_model_can_be_shown_has_a_line_that_says_why() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel([[("movie", {})], "Hm."], sees_images=True)
        await ReActAgent(rt, model).run("show me")
        text = text_of(model.requests[1])
        assert "models cannot be shown video/mp4" in text
        assert "over the limit of 3,932,160 bytes" in text
        assert "it is long; read it with read_result" in text
        assert "read_result" in {offer.name for offer in model.requests[1].tools}


async def test_of_many_pictures_the_newest_are_shown() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel(["Many."], sees_images=True)
        await ReActAgent(rt, model).run([Image(png(width + 1)) for width in range(24)])
        assert len(seen(model.requests[0])) == 20
        assert text_of(model.requests[0]).count("newer ones have taken the room") == 4


async def test_a_text_file_is_read_with_a_tool_by_a_model_without_eyes() -> None:
    def reads(request: ChatRequest) -> Any:
        assert "read it with read_result" in request.messages[-1].content
        name = request.messages[-1].content.partition("artifact ")[2][:71]
        return [("read_result", {"artifact": name, "length": 8})]

    async with Runtime(tools=TOOLS, store="memory://") as rt:
        result = await ReActAgent(rt, ScriptedModel([[("notes", {})], reads, "I remember."])).run("read the notes")
        assert result.messages[-2].content == "remember"


async def test_pictures_of_a_background_call_come_with_its_result() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel([[("slow_plot", {})], "Started.", "I see it."], sees_images=True)
        agent = ReActAgent(rt, model)
        first = await agent.run("plot", thread="t")
        (call,) = [use for message in first.messages for use in message.uses]
        page = await rt.history(thread="t", tool="slow_plot")
        await (await rt.handle(page.items[0].id, thread="t")).result()
        assert call.name == "slow_plot"
        await agent.run("and?", thread="t")
        assert seen(model.requests[2]) == [png(9)]


async def test_the_window_counts_pictures_and_leaves_out_old_ones() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel(["a", "b", "c", "d"], sees_images=True)
        agent = ReActAgent(rt, model, window=ContextWindow(4_000))
        for number in range(4):
            await agent.run(Image(b"\xff\xd8\xff" + bytes([number])), thread="t")  # of unknown size: they count most
        assert seen(model.requests[1]) == [b"\xff\xd8\xff\x00", b"\xff\xd8\xff\x01"]
        assert seen(model.requests[3]) == [b"\xff\xd8\xff\x03"]
        assert text_of(model.requests[3]).count("left out to make room") == 3


async def test_what_a_turn_is_about_stays_in_a_window_of_many_pictures() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        script = [*([("photo", {"number": number})] for number in range(5)), "Done."]
        model = ScriptedModel(script, sees_images=True)
        await ReActAgent(rt, model, window=ContextWindow(6_000, keep_steps=1)).run(Image(b"\xff\xd8\xff\xe0"))
        shown = seen(model.requests[-1])
        assert shown[0] == b"\xff\xd8\xff\xe0"
        assert shown[-1] == b"\xff\xd8\xff\x04"
        assert len(shown) < 5


class Hides(Middleware):
    def after_tool(self, turn: Turn, call: ToolCall, result: ToolResult) -> Change:
        return Change("nothing to see")


async def test_what_middleware_takes_from_a_result_is_not_shown() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel([[("plot", {})], "Nothing."], sees_images=True)
        result = await ReActAgent(rt, model, middleware=[Hides()]).run("plot")
        assert seen(model.requests[1]) == []
        assert all(not message.files for message in result.messages)


async def test_a_message_is_known_by_its_files() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        agent = ReActAgent(rt, ScriptedModel(["One."], sees_images=True))
        first = await agent.run(["?", Image(png())], thread="t", id="a")
        again = await agent.run(["?", Image(png())], thread="t", id="a")
        assert (first.turn, again.turn) == (1, 1)
        with pytest.raises(Conflict):
            await agent.run(["?", Image(png(9))], thread="t", id="a")


async def test_events_name_the_files() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        agent = ReActAgent(rt, ScriptedModel([[("plot", {})], "Seen."], sees_images=True))
        events = [event async for event in agent.stream(["?", Image(png(5))], thread="t")]
        named = [(event.type, event.data["files"][0]["width"]) for event in events if "files" in event.data]
        assert named == [("message", 5), ("tool_result", 4)]


@pytest.mark.parametrize("wrong", [[], ["a", 5], 5, b"bytes", None, Path("photo.png"), [""]])
async def test_a_message_that_is_none_is_refused(wrong: Any) -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        with pytest.raises(UsageError, match="message"):
            await ReActAgent(rt, ScriptedModel(["x"])).run(wrong)


async def test_a_caller_cannot_send_the_file_of_another() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        agent = ReActAgent(rt, ScriptedModel(["Ann.", "Bob."], sees_images=True))
        ann, bob = (agent.acting_for(rt.acting_for(name)) for name in ("ann", "bob"))
        result = await ann.run(Image(png()), thread="t")
        name = result.messages[0].files[0].artifact
        with pytest.raises(UsageError, match="there is no artifact"):
            await bob.run(Image(name), thread="t")
        assert (await bob.run("mine", thread="t")).text == "Bob."


async def test_a_plan_sees_the_pictures_of_its_message() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel(
            [
                [("plan", {"command": "create", "title": "Look", "steps": ["look at it"]})],
                "It is black.",
                "Black.",
            ],
            sees_images=True,
        )
        await PlanExecuteAgent(rt, model, name="planner").run(["?", Image(png())])
        assert [seen(request) for request in model.requests] == [[png()]] * 3


async def test_a_picture_that_is_gone_leaves_its_line() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        model = ScriptedModel(["One.", "Two."], sees_images=True)
        agent = ReActAgent(rt, model)
        await agent.run(Image(png()), thread="t")
        store: Any = rt.store
        store._artifacts.clear()
        again = ReActAgent(rt, model, replace=True)
        await again.run("and?", thread="t")
        assert "it is not kept any more" in text_of(model.requests[1])


def test_a_message_of_files_is_stored_as_references() -> None:
    ref = FileRef(artifact="sha256-" + "0" * 64, media_type="image/png", size=3)
    plain = encode(ChatMessage(role="user", content=ref.line, files=(ref,)))
    assert plain.count(b"artifact") == 2
    assert b'"files"' not in encode(ChatMessage(role="user", content="x"))


async def test_files_live_as_long_as_their_thread() -> None:
    day = 86_400.0
    clock = StepClock()
    keep = {"memory_retention": 10 * day, "retention": 2 * day}
    async with memory_runtime(TOOLS, clock=clock, **keep) as rt:
        agent = ReActAgent(rt, ScriptedModel([[("plot", {})], "a", "b", "c"], sees_images=True))
        await agent.run(Image(png(8)), thread="t")
        refs = [ref for message in await agent.messages("t") for ref in message.files]
        assert [ref.width for ref in refs] == [8, 4]
        clock.advance(8 * day)
        await agent.run("still there?", thread="t")
        clock.advance(4 * day)  # the pin of the upload has run out; the calls of the thread keep its files
        await rt.engine.sweeps.sweep_all()
        assert [await rt.artifact(ref.artifact) for ref in refs] == [png(8), png(4)]
        await agent.forget("t")
        clock.advance(20 * day)
        await rt.engine.sweeps.sweep_all()
        for ref in refs:
            with pytest.raises(NotFound):
                await rt.artifact(ref.artifact)


async def test_a_message_that_is_sent_to_a_running_turn_brings_its_picture() -> None:
    gate, day, clock = asyncio.Event(), 86_400.0, StepClock()

    @tool(timeout=None)
    async def wait() -> str:
        await gate.wait()
        return "over"

    async with memory_runtime([wait], clock=clock, memory_retention=10 * day, retention=2 * day) as rt:
        model = ScriptedModel([[("wait", {})], "Seen.", "Another.", "Later."], sees_images=True)
        agent = ReActAgent(rt, model)
        turn = await agent.begin("wait", thread="t")
        now = await agent.send(["look:", Image(png())], thread="t", when="now", id="a")
        clock.advance(1.0)
        after = await agent.send(Image(png(9)), thread="t", id="b")
        assert [message.files[0].width for message in await agent.queued("t")] == [4, 9]
        assert (await agent.send(["look:", Image(png())], thread="t", when="now", id="a")).id == now.id
        with pytest.raises(Conflict):
            await agent.send(Image(png(9)), thread="t", id="a")
        gate.set()
        await agent.wait("t", turn)
        assert seen(model.requests[1]) == [png()]
        await agent.wait("t", turn + 1)
        assert seen(model.requests[2]) == [png(), png(9)]
        turns = (await agent.history("t")).turns
        assert turns[1].id == after.id
        clock.advance(8 * day)
        await agent.run("still there?", thread="t")
        clock.advance(4 * day)  # the pin of the upload has run out
        await rt.engine.sweeps.sweep_all()
        refs = [ref for each in turns for message in each.messages for ref in message.files]
        assert [await rt.artifact(ref.artifact) for ref in refs] == [png(), png(9)]
