"""Random answers of a model: valid, malformed, duplicated, endless, empty, huge, null, unknown, raised; and stops in between."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import strategies as st

from clicket import RetryableError
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

__all__ = ["SCRIPTS", "Chaos", "Raised", "Tame"]


class Raised(Exception):
    """Raised by the model, on purpose."""


TEXTS = st.sampled_from(["", " ", "an answer", "lone \ud800 surrogate", "nul \x00", "日本語", "x" * 2_000_000, None, 7])
NAMES = st.sampled_from(
    ["echo", "echo", "echo", "fail", "nobody", "", " ", "n" * 900, "\ud800", "echo\x00", "a.b/c", None, "plan", "plan"]
)
ARGUMENTS = st.sampled_from(
    [
        '{"text": "a"}',
        '{"text": "b"}',
        '{"command": "create", "steps": ["a", {"text": "b", "depends_on": []}, "c"]}',
        '{"command": "update", "steps": ["b", "d"]}',
        '{"command": "mark_step", "step_index": 1, "step_status": "completed"}',
        '{"command": "finish", "summary": "all"}',
        '{"text": 1}',
        "{}",
        "",
        " null ",
        "null",
        None,
        "[]",
        '"text"',
        "7",
        "{",
        '{"text": "a"',
        '{"text": "a", "text": "b"}',
        '{"text": NaN}',
        '{"text": "\ud800"}',
        '{"text": "\\ud800"}',
        '{"text": "\\u0000"}',
        '{"other": 1}',
        "[" * 5_000,
        '{"text": "' + "x" * 400_000 + '"}',
        {"text": "not a text"},
        b'{"text": "bytes"}',
    ]
)
IDS = st.sampled_from(
    ["a", "a", "b", "c", "", " ", "x" * 900, "\ud800", "\x00", "chaos-1-1_1", "chaos-1-1_2", "chaos.1.1.1", None, 7]
)
USES = st.builds(ToolUse, id=IDS, name=NAMES, arguments=ARGUMENTS)
USAGES = st.sampled_from(
    [Usage(), Usage(input_tokens=5, output_tokens=7, cost=0.1), Usage(input_tokens=-9), Usage(cost=float("nan")), None]
)
VENDORS = st.sampled_from([None, None, {"anthropic": []}, {"x": "\ud800"}, {"x": object()}, {1: 2}, [], "text"])
CALLS = st.builds(
    lambda text, uses, usage, vendor: ChatReply(text=text, uses=uses, usage=usage, vendor=vendor),
    TEXTS,
    st.one_of(
        st.lists(USES, min_size=1, max_size=4).map(tuple),
        st.lists(USES, min_size=1, max_size=2).map(lambda uses: tuple(uses * 150)),
        st.sampled_from([None, (), (None,), ("echo",)]),
    ),
    USAGES,
    VENDORS,
)
ERRORS = st.sampled_from(
    [
        lambda: Raised("broken"),
        lambda: RetryableError("again", retry_after=0),
        lambda: ConnectionError("gone"),
        lambda: ExceptionGroup("many", [Raised("one")]),
        asyncio.CancelledError,
        lambda: Raised("\ud800"),
    ]
)
WISHES = st.sampled_from(["stop", "leave", "stop later", "nothing", "no reply"])
ANSWERS = st.one_of(CALLS, CALLS, CALLS, TEXTS.map(lambda text: ChatReply(text=text)), ERRORS, WISHES)
SCRIPTS = st.lists(ANSWERS, min_size=1, max_size=8)


class Chaos:
    """Gives its answers in turn, and starts over at the end. `wish(what)` asks the test to stop the run, or to close it."""

    name = "chaos"

    def __init__(self, script: list[Any], wish: Any) -> None:
        self._script = script
        self._wish = wish
        self._place = 0
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> Any:
        self.requests.append(request)
        answer = self._script[self._place % len(self._script)]
        self._place += 1
        if self._place % 3 == 0:
            await asyncio.sleep(0)
        if isinstance(answer, ChatReply):
            return answer
        if isinstance(answer, str):
            if answer == "no reply":
                return None
            self._wish(answer)
            if answer != "stop later":
                await asyncio.sleep(0)
            return ChatReply(uses=(ToolUse(id="w", name="echo", arguments=f'{{"text": "{self._place}"}}'),))
        raise answer()


class Tame:
    """A model that ends every turn at once."""

    name = "tame"

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.requests.append(request)
        return ChatReply(text="fine")
