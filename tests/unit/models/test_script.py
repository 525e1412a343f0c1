"""A model that replays answers from a file, by the position in the conversation; errors in the file are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from clicket.errors import UsageError
from clicket.model.chat import ChatMessage, ChatRequest, Delta
from clicket.models import ScriptModel, model_of

ANSWERS = [[["add", {"a": 1}], ["echo", {}]], "Done, all of it."]


def write(folder: Path, content: Any) -> str:
    (folder / "script.json").write_text(content if isinstance(content, str) else json.dumps(content))
    return str(folder / "script.json")


def asked(answers: int) -> ChatRequest:
    one = (ChatMessage(role="user", content="hello"), ChatMessage(role="assistant", content="x"))
    return ChatRequest(messages=one * answers + (ChatMessage(role="user", content="hello"),))


async def test_the_conversation_says_which_answer_it_is(tmp_path: Path) -> None:
    model = ScriptModel(write(tmp_path, ANSWERS))
    for _ in range(2):  # a new process continues where another was
        first, second = await model.chat(asked(0)), await model.chat(asked(1))
        assert [(use.name, json.loads(use.arguments)) for use in first.uses] == [("add", {"a": 1}), ("echo", {})]
        assert (second.text, second.uses) == ("Done, all of it.", ())
        assert (second.usage.input_tokens, second.usage.output_tokens) == (3, 4)
        assert second.usage.cost == 0
    with pytest.raises(UsageError, match="has had them all"):
        await model.chat(asked(2))


async def test_it_may_begin_anew(tmp_path: Path) -> None:
    model = ScriptModel(write(tmp_path, {"answers": ANSWERS, "repeat": True}))
    assert (await model.chat(asked(5))).text == "Done, all of it."
    assert (await model.chat(asked(6))).uses


async def test_in_pieces(tmp_path: Path) -> None:
    model = ScriptModel(write(tmp_path, ANSWERS))
    deltas: list[Delta] = []
    reply = await model.stream(asked(1), deltas.append)
    assert len(deltas) > 1
    assert "".join(each.text for each in deltas) == reply.text
    deltas.clear()
    await model.stream(asked(0), deltas.append)
    assert [(each.kind, each.use) for each in deltas] == [("name", 0), ("arguments", 0), ("name", 1), ("arguments", 1)]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("not json", "not valid JSON"),
        ([], "has no answers"),
        ({"answer": []}, "unknown field"),
        ({"answers": "x"}, "Expected `array`"),
        ([1], "answer 1 is neither"),
        (["ok", []], "answer 2 is neither"),
        ([["add", {}]], "answer 1 is neither"),
        ([[["add", "x"]]], "answer 1 is neither"),
        (3, "Expected `object`"),
    ],
)
def test_what_is_no_script(tmp_path: Path, content: Any, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refused:
        ScriptModel(write(tmp_path, content))
    assert "script.json" in str(refused.value)


def test_as_settings_name_it(tmp_path: Path) -> None:
    path = write(tmp_path, ANSWERS)
    assert model_of(f"script:{path}").name == model_of({"kind": "script", "model": path}).name == f"script:{path}"
    with pytest.raises(UsageError, match="no option 'timeout'"):
        model_of({"kind": "script", "model": path, "timeout": 3})
    with pytest.raises(UsageError, match="named by its file"):
        model_of("script:")
    with pytest.raises(UsageError, match="cannot be read"):
        model_of("script:nowhere.json")
