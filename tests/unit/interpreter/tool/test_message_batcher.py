"""Messages are merged, counted and shortened before they reach a journal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE

from clicket.interpreter.tool.message_batcher import MessageBatcher

# Messages before the journal.


def text(content: str, type: str = "stdout", block: int = 0) -> dict[str, Any]:
    return {"type": type, "content": content, "block_index": block, "timestamp": 1.0}


async def test_small_texts_are_merged_in_order_and_nothing_is_lost() -> None:
    said: list[dict[str, Any]] = []
    merging = MessageBatcher(said.append, None)  # type: ignore[arg-type]  # nothing large comes
    for number in range(2_000):
        await merging.take(text(f"{number}\n"))
    await merging.take(text("oh", "stderr"))
    await merging.take(text("next", block=1))
    await merging.take({"type": "code_execution_complete", "block_index": 1})
    assert [m["type"] for m in said[-3:]] == ["stderr", "stdout", "code_execution_complete"]
    assert "".join(m["content"] for m in said[:-3]) == "".join(f"{number}\n" for number in range(2_000))
    assert len(said) < 10


async def test_of_very_much_text_the_rest_is_counted() -> None:
    said: list[dict[str, Any]] = []
    merging = MessageBatcher(said.append, None)  # type: ignore[arg-type]  # nothing large comes
    for _ in range(1_000):
        await merging.take(text("x" * 10_000))
    await merging.take(text("last", "stderr", 1))
    await merging.take({"type": "code_execution_complete", "block_index": 1})
    shown = sum(len(m.get("content", "")) for m in said)
    assert shown < 600_000
    omitted = [(m["type"], m["omitted"]) for m in said if "omitted" in m]
    assert omitted == [("stdout", 10_000_000 - shown), ("stderr", 4)]
    assert said[-1]["type"] == "code_execution_complete"


async def test_of_very_many_things_shown_the_rest_is_counted() -> None:
    said: list[dict[str, Any]] = []
    merging = MessageBatcher(said.append, None)  # type: ignore[arg-type]  # nothing large comes
    for number in range(3_000):
        await merging.take({"type": "display", "mime": "text/plain", "data": str(number), "block_index": 0})
        await merging.take({"type": "variable_created", "name": f"x{number}", "block_index": 0})
    await merging.take({"type": "final_result", "result": {}})
    assert len(said) < 500
    assert [(m["type"], m.get("omitted")) for m in said[-3:]] == [
        ("display", 2_800),
        ("variable_created", 2_800),
        ("final_result", None),
    ]


async def test_text_that_trickles_is_shown_soon_and_later_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    came = asyncio.Event()
    merging = MessageBatcher(lambda _: came.set(), None)  # type: ignore[arg-type,return-value]
    await merging.take(text("alone"))
    await asyncio.wait_for(came.wait(), PATIENCE)
    waits: list[float] = []
    loop = asyncio.get_running_loop()
    later = loop.call_later
    monkeypatch.setattr(loop, "call_later", lambda wait, *call: waits.append(wait) or later(wait, *call))
    for _ in range(900):
        await merging.take(text("x"))
        merging.flush()
    assert waits == sorted(waits)
    assert waits[0] < waits[300] < waits[-1]
    assert waits[-1] > 1.0


async def test_what_is_large_is_kept_and_named() -> None:
    said: list[dict[str, Any]] = []
    kept: list[bytes] = []

    async def put(data: Any) -> str:
        kept.append(data)
        return "sha256-1"

    merging = MessageBatcher(said.append, put)
    picture = "aGVsbG8h" * 40_000
    await merging.take({"type": "display", "mime": "image/png", "data": picture})
    await merging.take({"type": "final_result", "result": {"status": "ok", "stdout": "x" * 100_000}})
    assert kept == [b"hello!" * 40_000]
    assert said[0]["artifact"] == "sha256-1"
    assert said[0]["data"] == ""
    assert said[1] == {"type": "final_result", "result": {"status": "ok"}, "cut": True}


async def test_figures_travel_with_their_messages_until_there_are_many() -> None:
    said: list[dict[str, Any]] = []

    async def put(data: Any) -> str:
        return "sha256-1"

    merging = MessageBatcher(said.append, put)
    for _ in range(8):
        await merging.take({"type": "display", "mime": "image/png", "data": "aGVsbG8h" * 25_000})
    assert [len(message["data"]) for message in said] == [200_000] * 5 + [0] * 3
    assert ["artifact" in message for message in said] == [False] * 5 + [True] * 3
