"""The scripted model, and the recording and replaying models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clicket.errors import RetryableError, UsageError
from clicket.model.chat import ChatMessage, ChatReply, ChatRequest, Delta, ToolOffer, ToolUse, Usage
from clicket.model.ports.services import StreamingModel
from clicket.testing import RecordingModel, ReplayModel, ScriptedModel

HELLO = ChatRequest(messages=(ChatMessage(role="user", content="Hello"),))


async def test_it_answers_in_turn_and_then_says_that_it_is_over() -> None:
    whole = ChatReply(text="b", usage=Usage(input_tokens=1))
    model = ScriptedModel(["a", whole, RetryableError("busy"), KeyError, [("add", {"a": 1})]])
    assert (await model.chat(HELLO)).text == "a"
    assert await model.chat(HELLO) is whole
    with pytest.raises(RetryableError, match="busy"):
        await model.chat(HELLO)
    with pytest.raises(KeyError):
        await model.chat(HELLO)
    assert (await model.chat(HELLO)).uses[0].name == "add"
    assert model.left == 0
    with pytest.raises(UsageError, match="5 answers"):
        await model.chat(HELLO)
    assert model.requests == [HELLO] * 6


def test_what_is_no_answer_is_refused_at_once() -> None:
    for wrong in (3, [("add",)], [3], int, {"a": 1}):
        with pytest.raises(UsageError, match="Answer 2"):
            ScriptedModel(["a", wrong])
    with pytest.raises(UsageError, match="position"):
        ScriptedModel([], position="middle")  # type: ignore[arg-type]


async def test_steps_of_tool_calls() -> None:
    model = ScriptedModel([[("add", {"a": 1}), ("raw", "{broken"), ("none", None)], []])
    first, second = await model.chat(HELLO), await model.chat(HELLO)
    assert first.uses == (
        ToolUse(id="call_1_1", name="add", arguments='{"a":1}'),
        ToolUse(id="call_1_2", name="raw", arguments="{broken"),
        ToolUse(id="call_1_3", name="none", arguments="null"),
    )
    assert first.usage.output_tokens > 0
    assert (second.text, second.uses) == ("", ())


async def test_functions_of_the_request() -> None:
    async def later(request: ChatRequest) -> Any:
        return [("echo", {"text": request.messages[-1].content})]

    model = ScriptedModel(
        [lambda request: request.messages[0].content, later, lambda _: RetryableError("no"), lambda _: 3]
    )
    assert (await model.chat(HELLO)).text == "Hello"
    assert (await model.chat(HELLO)).uses[0].arguments == '{"text":"Hello"}'
    with pytest.raises(RetryableError):
        await model.chat(HELLO)
    with pytest.raises(UsageError, match="function 4"):
        await model.chat(HELLO)


async def test_a_resumed_process_gets_the_answer_of_its_place() -> None:
    said = ChatMessage(role="assistant", content="a")
    model = ScriptedModel(["a", "b", [("add", {})]], position="transcript")
    later = ChatRequest(messages=(*HELLO.messages, said, *HELLO.messages, said, *HELLO.messages))
    assert (await model.chat(later)).uses[0].id == "call_3_1"
    assert (await model.chat(HELLO)).text == "a"
    assert (await model.chat(HELLO)).text == "a"
    assert (await model.chat(ChatRequest(messages=(*HELLO.messages, said)))).text == "b"


def conversation(*said: str) -> ChatRequest:
    """Answers of a model; an empty one starts the next turn."""
    answers = [ChatMessage(role="assistant" if one else "user", content=one or "Go on.") for one in said]
    return ChatRequest(messages=(*HELLO.messages, *answers))


async def test_a_script_that_is_loaded_again_continues_in_the_middle_of_its_turn() -> None:
    model = ScriptedModel(["a", "b", "c", "d"])
    assert (await model.chat(conversation("a", "b"))).text == "c"
    assert (await model.chat(HELLO)).text == "d", "and then in turn"
    assert model.left == 0
    whole = ScriptedModel(["a", "b", "c", "d"])
    assert (await whole.chat(conversation("a", "b", "", "c"))).text == "d", "of the conversation"
    failing = ScriptedModel([RetryableError("busy"), "a", RetryableError, "b", "c"])
    assert (await failing.chat(conversation("a", "b"))).text == "c", "an answer that raised does not count"
    called = ScriptedModel([lambda _: "a", [("add", {"a": 1})], "c"])
    add = ChatMessage(role="assistant", uses=(ToolUse(id="x", name="add", arguments='{"a":1}'),))
    assert (await called.chat(ChatRequest(messages=(*conversation("a").messages, add)))).text == "c"


async def test_what_another_script_said_is_not_passed_over() -> None:
    for before in (
        conversation("a", "b"),
        conversation("fir"),
        conversation("a", "", "b"),
        conversation("a", ""),
    ):
        assert (await ScriptedModel(["first", "second", "third"]).chat(before)).text == "first"
    assert (await ScriptedModel(["first"]).chat(conversation("first", ""))).text == "first", "a turn that begins"


async def deltas_of(model: StreamingModel, request: ChatRequest = HELLO) -> tuple[list[Delta], ChatReply]:
    deltas: list[Delta] = []
    reply = await model.stream(request, deltas.append)
    return deltas, reply


async def test_it_streams_in_pieces() -> None:
    model = ScriptedModel(["A text of some length.", [("add", {"a": 123456}), ("add", {"a": 1})]])
    deltas, reply = await deltas_of(model)
    assert len(deltas) > 1
    assert "".join(one.text for one in deltas) == reply.text
    deltas, reply = await deltas_of(model)
    assert [one.text for one in deltas if one.kind == "name"] == ["add", "add"]
    for number, use in enumerate(reply.uses):
        assert "".join(one.text for one in deltas if one.kind == "arguments" and one.use == number) == use.arguments


async def test_what_was_recorded_is_given_again(tmp_path: Path) -> None:
    file = tmp_path / "new" / "answers.jsonl"
    other = ChatRequest(messages=HELLO.messages, tools=(ToolOffer(name="add"),))
    script = ["a", "b", [("add", {"a": 1})], RetryableError("busy")]
    recorder = RecordingModel(ScriptedModel(script), file)
    first = [await recorder.chat(HELLO), await recorder.chat(HELLO), (await deltas_of(recorder, other))[1]]
    with pytest.raises(RetryableError):
        await recorder.chat(HELLO)

    replay = ReplayModel(file)
    assert (await deltas_of(replay, other))[1] == first[2]
    assert [await replay.chat(HELLO), await replay.chat(HELLO)] == first[:2]
    with pytest.raises(UsageError, match="2 replies"):
        await replay.chat(HELLO)
    wrong = ChatRequest(messages=(ChatMessage(role="user", content="Hallo"),), tools=other.tools)
    with pytest.raises(UsageError, match=r"at /messages/0/content: 'Hello' there, 'Hallo' here"):
        await replay.chat(wrong)
    with pytest.raises(UsageError, match=r"at /messages: 1 there, 2 here"):
        await replay.chat(ChatRequest(messages=HELLO.messages * 2))


async def test_no_secrets_are_recorded(tmp_path: Path) -> None:
    file, key = tmp_path / "answers.jsonl", "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    asked = ChatRequest(messages=(ChatMessage(role="user", content=f"My key is {key}."),))
    await RecordingModel(ScriptedModel([f"I see {key}"]), file).chat(asked)
    assert key not in file.read_text()
    other = ChatRequest(messages=(ChatMessage(role="user", content=f"My key is {key[::-1]}."),))
    assert (await ReplayModel(file).chat(asked)).text.startswith("I see ")
    with pytest.raises(UsageError, match="no reply"):
        await ReplayModel(file).chat(other)


async def test_a_recording_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no recording"):
        ReplayModel(tmp_path / "no")
    (tmp_path / "odd").write_text('{"digest": 3}\n')
    with pytest.raises(UsageError, match="Line 1"):
        ReplayModel(tmp_path / "odd")
    (tmp_path / "empty").write_text("")
    with pytest.raises(UsageError, match="no answers"):
        await ReplayModel(tmp_path / "empty").chat(HELLO)
