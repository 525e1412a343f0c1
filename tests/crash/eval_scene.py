"""An evaluation in a process that dies at one of its writes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.settle import Place
from tests.crash.tools import append_line

from clicket import Runtime, tool
from clicket.agents import ReActAgent
from clicket.evals import Case, RecordedCall, calls_in_order, evaluate
from clicket.testing import ScriptedModel

__all__ = ["CASES", "EvalScene", "play"]

CASES = [
    Case(
        f"Pay order {number}.",
        name=f"c{number}",
        calls=(RecordedCall(tool="pay", arguments={"order": number}, content="paid"),),
    )
    for number in range(5)
]


class EvalScene(msgspec.Struct, frozen=True, kw_only=True):
    """`dies_at`: the write of the evaluation at which the process is killed; 0: none. `before`: not after it, but before."""

    place: Place
    dies_at: int = 0
    before: bool = False


def play(given: dict[str, Any]) -> None:
    """In a child process."""
    asyncio.run(_play(msgspec.convert(given, EvalScene)))


async def _play(scene: EvalScene) -> None:
    folder = Path(scene.place.folder)

    @tool
    async def pay(order: int) -> str:
        append_line(folder / "paid", order)
        return "paid"

    def calls(request: Any) -> Any:
        message = request.messages[-1].content
        append_line(folder / "asked", message)
        return [("pay", {"order": int(message.removeprefix("Pay order ").rstrip("."))})]

    def made(rt: Runtime) -> ReActAgent:
        answers: list[Any] = [lambda request: "done" if request.messages[-1].role == "tool" else calls(request)] * 20
        return ReActAgent(rt, ScriptedModel(answers), name="a")

    async with Runtime(settings=scene.place.settings()) as rt:
        store: Any = rt.engine.store
        write, writes = store.put_document, 0

        async def dying(kind: str, *given: Any) -> Any:
            nonlocal writes
            writes += kind.startswith("eval.")
            dies = kind.startswith("eval.") and writes == scene.dies_at
            if dies and scene.before:
                os.kill(os.getpid(), signal.SIGKILL)
            result = await write(kind, *given)
            if dies:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        store.put_document = dying
        report = await evaluate(CASES, made, calls_in_order(), tools=[pay], rt=rt, commit="c", concurrency=2)
        append_line(folder / "reports", [report.passed, len(report.trials)])
