"""The uses of one call: which calls they become, what is answered, and where it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.kit.tools import add
from tests.kit.waiting import eventually

from clicket import State, ToolResult, tool
from clicket.errors import Conflict, QueueFull
from clicket.interpreter.session.protocol import Violation
from clicket.interpreter.tool.program_tools import ProgramTools
from clicket.interpreter.tool.program_uses import ProgramDiverged, ProgramUses, UseLimits
from clicket.model import ToolError
from clicket.tools import Registry


@tool
async def secret() -> str:
    return "s"


class Calls:
    """Nested calls that end as the test says."""

    def __init__(self) -> None:
        self.made: list[tuple[Any, ...]] = []
        self.outcome: Any = 3
        self.hold = asyncio.Event()
        self.hold.set()
        self.cancelled = 0

    async def call(self, number: int, tool: str, arguments: bytes) -> ToolResult:
        self.made.append((number, tool, arguments))
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if isinstance(self.outcome, Exception):
            raise self.outcome
        if isinstance(self.outcome, ToolError):
            return ToolResult(call_id="c", tool=tool, state=State.FAILED, error=self.outcome)
        return ToolResult(call_id="c", tool=tool, state=State.COMPLETED, output=self.outcome)

    async def refuse(self, number: int, tool: str, arguments: bytes, why: str) -> ToolResult:
        self.made.append((number, tool, "refused", why))
        error = ToolError(code="permission_denied", message=why, type="PermissionDenied")
        return ToolResult(call_id="c", tool=tool, state=State.FAILED, error=error)


class Scene:
    def __init__(self, **limits: float) -> None:
        registry = Registry([add, secret])
        self.calls = Calls()
        tools = ProgramTools(["add"], registry.get, is_reachable=lambda tool: True)
        given: dict[str, Any] = {"max_uses": 10, "max_uses_at_once": 2, "max_use_wait": 60.0, **limits}
        self.uses = ProgramUses(tools, self.calls, UseLimits(**given))
        self.answers: list[dict[str, Any]] = []

    def begin(self, tool: str = "add", arguments: bytes = b'{"a":1,"b":2}') -> Any:
        return self.uses.begin(tool, arguments, self._reply)

    def _reply(self, body: bytes) -> None:
        self.answers.append(msgspec.json.decode(b"{%b}" % body))

    async def answered(self, count: int) -> list[dict[str, Any]]:
        await eventually(lambda: len(self.answers) == count)
        return self.answers


async def test_uses_become_numbered_calls() -> None:
    scene = Scene()
    async with scene.uses:
        scene.begin()
        scene.begin(arguments=b'{"a":2,"b":2}')
        assert await scene.answered(2) == [{"value": 3}, {"value": 3}]
    assert scene.calls.made == [(1, "add", b'{"a":1,"b":2}'), (2, "add", b'{"a":2,"b":2}')]


async def test_errors_are_answers() -> None:
    scene = Scene()
    async with scene.uses:
        scene.calls.outcome = ToolError(code="timeout", message="slow", type="Timeout", retryable=True)
        scene.begin()
        assert (await scene.answered(1))[0]["error"] == {
            "code": "timeout", "message": "slow", "type": "Timeout", "retryable": True,
        }  # fmt: skip
        scene.calls.outcome = QueueFull("full")
        scene.begin()
        assert (await scene.answered(2))[1]["error"]["code"] == "queue_full"
        scene.calls.outcome = RuntimeError("a mistake of ours")
        scene.begin()
        assert (await scene.answered(3))[2]["error"]["code"] == "tool_error"
        assert "mistake" not in str(scene.answers[2])
        scene.calls.outcome = "x" * (9 * 1024 * 1024)
        scene.begin()
        assert (await scene.answered(4))[3]["error"]["code"] == "result_too_large"


async def test_other_tools_are_refused_and_those_of_the_runtime_on_record() -> None:
    scene = Scene()
    async with scene.uses:
        scene.begin("secret", b"{}")
        scene.begin("ad", b"{}")
        first, second = await scene.answered(2)
    assert first["error"]["code"] == "permission_denied"
    assert (second["error"]["code"], "'add'" in second["error"]["message"]) == ("tool_not_found", True)
    assert [made[:3] for made in scene.calls.made] == [(1, "secret", "refused")]


async def test_the_limit_is_told_a_thousand_times_then_the_program_ends() -> None:
    scene = Scene(max_uses=1)
    async with scene.uses:
        scene.begin()
        await scene.answered(1)
        for _ in range(1_000):
            scene.begin()
        assert {answer["error"]["code"] for answer in scene.answers[1:]} == {"use_limit"}
        with pytest.raises(Violation):
            scene.begin()
    assert len(scene.calls.made) == 1


async def test_so_many_go_on_at_once_and_all_end_with_the_call() -> None:
    scene = Scene()
    scene.calls.hold.clear()
    async with scene.uses:
        cancels = [scene.begin() for _ in range(5)]
        await eventually(lambda: len(scene.calls.made) == 2)
        cancels[0]()
        await eventually(lambda: len(scene.calls.made) == 3)
        assert scene.calls.cancelled == 1
    assert scene.calls.cancelled == 3
    assert len(scene.calls.made) == 3, "those that waited were never made"
    assert not scene.answers


async def test_a_program_that_diverged_uses_nothing_more_and_fails() -> None:
    scene = Scene()
    async with scene.uses:
        scene.uses.raise_failure()
        scene.calls.outcome = Conflict("another call has this id")
        scene.begin()
        assert (await scene.answered(1))[0]["error"]["code"] == "conflict"
        scene.calls.outcome = 3
        scene.begin()
        assert (await scene.answered(2))[1]["error"]["code"] == "conflict"
    assert len(scene.calls.made) == 1
    with pytest.raises(ProgramDiverged, match="use 1 of a tool"):
        scene.uses.raise_failure()


async def test_uses_that_take_too_long_in_all_are_answered_and_withdrawn() -> None:
    scene = Scene(max_use_wait=0.2)
    scene.calls.hold.clear()
    async with scene.uses:
        for _ in range(3):
            scene.begin()
        first, *others = await scene.answered(3)
        assert first["error"]["code"] == "timeout"
        assert "max_use_wait" in first["error"]["message"]
        assert others == [first, first], "also the use that waited for its turn"
        assert (scene.calls.cancelled, len(scene.calls.made)) == (2, 2)
        scene.calls.hold.set()
        scene.begin()
        assert (await scene.answered(4))[3] == first, "the time is that of all uses: the next one has none left"
        assert len(scene.calls.made) == 2


async def test_only_the_time_of_uses_counts_and_it_adds_up() -> None:
    scene = Scene(max_use_wait=0.4)
    async with scene.uses:
        scene.begin()
        await scene.answered(1)
        await asyncio.sleep(0.5)  # the program computes, which is limited elsewhere
        scene.begin()
        assert (await scene.answered(2))[1] == {"value": 3}
        scene.calls.hold.clear()
        for number in range(3, 30):  # each is withdrawn early, and another one follows
            cancel = scene.begin(arguments=b'{"a":%d,"b":2}' % number)
            await asyncio.sleep(0.1)
            cancel()
            if len(scene.answers) > 2:
                break
        assert scene.answers[2]["error"]["code"] == "timeout"
