"""A tool's checkpoints are available in its next attempt: byte for byte, within limits, and without a secret in plain text."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kit.waiting import PATIENCE, eventually
from tests.scenarios.kit import assert_sound, make, sqlite_url

from clicket import RetryableError, State, ToolContext, tool
from clicket.cli.formatting import what_happened
from clicket.engine.executors import checkpoints as kept_by_calls
from clicket.errors import NotFound, UsageError

LARGE = bytes(range(256)) * 4_000
SECRET = "sk-proj-0123456789abcdefABCDEF"
SEALING = "a key of more than sixteen characters"
PIECES = {
    "plan:1": b'{"queries": ["a"]}',
    "binary": b"\x00\xff\x80",
    "empty": b"",
    "large": LARGE,
    "text": "Zürich 苏黎世".encode(),
}


def notes(record: Any) -> list[dict[str, Any]]:
    return [e.data for e in record.events if e.type == "note" and e.data.get("reason") == "checkpoint"]


def tool_keeping(pieces: dict[str, bytes], **options: Any) -> Any:
    """Stores the pieces in its first attempt, and returns in its second what it found."""

    @tool(max_retries=1, retry_delay=0.001, name="worker", **options)
    async def worker(ctx: ToolContext, token: str = "") -> dict[str, str]:
        found = await ctx.checkpoints()
        if ctx.attempt == 1:
            assert found == {}
            for key, data in pieces.items():
                await ctx.checkpoint(key, data)
            raise RetryableError("once more")
        return {key: data.hex() for key, data in found.items()}

    return worker


async def test_the_next_attempt_finds_them(store: str) -> None:
    async with make([tool_keeping(PIECES)], store) as rt:
        result = await rt.call("worker")
        assert {key: bytes.fromhex(data) for key, data in result.output.items()} == PIECES
        record = await rt.get(result.call_id)
    assert_sound(record)
    assert [(data["key"], data["size"]) for data in notes(record)] == [(k, len(v)) for k, v in PIECES.items()]
    assert max(len(str(data)) for data in notes(record)) < 500  # readers of the events do not get large values
    assert record.state is State.COMPLETED
    shown = [what_happened(e, 80).plain for e in record.events if e.type == "note"]
    assert "Checkpoint large: 1,024,000 bytes." in shown


async def test_a_later_one_takes_the_place_of_an_earlier(store: str) -> None:
    @tool
    async def worker(ctx: ToolContext) -> dict[str, str]:
        await asyncio.gather(*(ctx.checkpoint(f"search:{n}", b"%d" % n) for n in range(20)))
        await ctx.checkpoint("search:0", LARGE)
        await ctx.checkpoint("search:0", b"last")
        return {key: data.decode() for key, data in (await ctx.checkpoints()).items()}

    async with make([worker], store) as rt:
        assert (await rt.call("worker")).output == {**{f"search:{n}": str(n) for n in range(1, 20)}, "search:0": "last"}


async def test_in_a_thread(store: str) -> None:
    @tool
    def worker(ctx: ToolContext) -> str:
        asyncio.run(ctx.checkpoint("a", LARGE))
        return asyncio.run(ctx.checkpoints())["a"].hex()

    async with make([worker], store) as rt:
        assert (await rt.call("worker")).output == LARGE.hex()


async def test_in_a_child_process_there_is_no_way_to_the_store() -> None:
    from tests.scenarios.process_tools import keeper

    async with make([keeper]) as rt:
        for what in ("checkpoint", "checkpoints"):
            result = await rt.call("keeper", {"what": what})
            assert result.error is not None
            assert "cannot keep or read artifacts and checkpoints" in result.error.message


@pytest.mark.parametrize(
    ("key", "data", "reason"),
    [
        ("", b"", "key is printable text"),
        ("a\nb", b"", "key is printable text"),
        ("k" * 201, b"", "key is printable text"),
        (5, b"", "key is printable text"),
        (f"search {SECRET}", b"", "holds a secret"),
        ("a", "text", "made of bytes, not of str"),
        ("a", b"x" * 17, "at most 16 are kept"),
    ],
)
async def test_what_is_no_checkpoint(monkeypatch: pytest.MonkeyPatch, key: Any, data: Any, reason: str) -> None:
    monkeypatch.setattr(kept_by_calls, "MAX_SIZE", 16)

    @tool
    async def worker(ctx: ToolContext) -> None:
        with pytest.raises(UsageError, match=reason):
            await ctx.checkpoint(key, data)
        assert await ctx.checkpoints() == {}

    async with make([worker]) as rt:
        assert (await rt.call("worker")).success


@pytest.mark.parametrize(("limit", "value"), [("MAX_COUNT", 3), ("MAX_TOTAL", 30)])
async def test_their_number_and_size_are_bounded_over_all_attempts(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(kept_by_calls, limit, value)

    @tool(max_retries=1, retry_delay=0.001)
    async def worker(ctx: ToolContext) -> int:
        await ctx.checkpoint("a", b"0123456789")
        if ctx.attempt == 1:
            raise RetryableError("once more")
        await ctx.checkpoint("a", b"0123456789")
        with pytest.raises(UsageError, match="a call keeps at most"):
            await ctx.checkpoint("a", b"0123456789!")
        return len(await ctx.checkpoints())

    async with make([worker]) as rt:
        assert (await rt.call("worker")).output == 1


async def test_they_are_kept_when_reports_are_not() -> None:
    @tool
    async def worker(ctx: ToolContext) -> dict[str, str]:
        for n in range(1_100):
            ctx.note(f"remark {n}")
        await ctx.checkpoint("after", b"x")
        return {key: data.decode() for key, data in (await ctx.checkpoints()).items()}

    async with make([worker]) as rt:
        assert (await rt.call("worker")).output == {"after": "x"}


async def test_they_hold_off_the_idle_limit() -> None:
    @tool(idle_timeout=0.4, max_retries=0)
    async def worker(ctx: ToolContext) -> str:
        for n in range(4):
            await asyncio.sleep(0.2)
            await ctx.checkpoint("a", b"%d" % n)
        return "done"

    async with make([worker]) as rt:
        assert (await rt.call("worker")).output == "done"


async def test_they_do_not_keep_an_output_from_equal_calls(store: str) -> None:
    @tool(cache=60)
    async def worker(ctx: ToolContext) -> str:
        await ctx.checkpoint("a", LARGE)
        return "done"

    async with make([worker], store) as rt:
        assert not (await rt.call("worker")).cached
        assert (await rt.call("worker")).cached


async def test_they_go_with_the_call(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path)
    async with make([tool_keeping(PIECES)], url, retention=1.0) as rt:
        result = await rt.call("worker")
        (name,) = (data["artifact"] for data in notes(await rt.get(result.call_id)) if "artifact" in data)
        assert await rt.artifact(name) == LARGE
        for path in tmp_path.glob("**/*.artifacts/??/*"):
            os.utime(path, (time.time() - 7200,) * 2)
        keep = rt.retention()
        assert keep.since is not None
        await rt.sweep(type(keep)(since=time.time() + 1))
        with pytest.raises(NotFound):
            await rt.artifact(name)


async def test_a_caller_may_not_read_what_the_tool_keeps_for_itself(store: str) -> None:
    @tool
    async def reader(name: str, ctx: ToolContext) -> int:
        return len(await ctx.artifact(name))

    async with make([tool_keeping(PIECES), reader], store) as rt:
        result = await rt.acting_for("ann").call("worker")
        assert len(result.output) == len(PIECES)
        (name,) = (data["artifact"] for data in notes(await rt.get(result.call_id)) if "artifact" in data)
        assert (await rt.call("reader", {"name": name})).output == len(LARGE)
        refused = await rt.acting_for("ann").call("reader", {"name": name})
        assert refused.error is not None
        assert "there is no artifact" in refused.error.message


@pytest.mark.parametrize("where", ["argument", "found"])
@pytest.mark.parametrize("sealing", [None, SEALING])
@pytest.mark.parametrize("more", [0, 300_000, 256 * 1024 - 24], ids=["small", "large", "across two pieces"])
async def test_a_secret_is_nowhere_in_the_clear(tmp_path: Path, where: str, sealing: str | None, more: int) -> None:
    data = b"." * more + f"the answer is {SECRET}.".encode()
    arguments = {"token": SECRET} if where == "argument" else {}
    async with make([tool_keeping({"a": data})], sqlite_url(tmp_path), secret_key=sealing) as rt:
        result = await rt.call("worker", arguments)
        (note,) = notes(await rt.get(result.call_id))
    assert result.output in ({"a": data.hex()}, {"a": "[secret]"})  # it came back unchanged
    assert note.get("sealed", False) is (sealing is not None)
    assert note.get("held", False) is (sealing is None)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("sealing", [None, SEALING])
async def test_another_runtime_goes_on_from_them(sqlite: str, sealing: str | None) -> None:
    pieces = {**PIECES, "secret": SECRET.encode(), "large secret": LARGE + SECRET.encode()}
    kept = asyncio.Event()

    @tool(read_only=True)
    async def worker(ctx: ToolContext) -> dict[str, str]:
        found = await ctx.checkpoints()
        if ctx.attempt == 1:
            for key, data in pieces.items():
                await ctx.checkpoint(key, data)
            kept.set()
            await asyncio.Event().wait()
        return {key: data.hex() for key, data in found.items()}

    async with make([worker], sqlite, secret_key=sealing, close_timeout=0.01) as rt:
        handle = await rt.submit("worker")
        await kept.wait()
    async with make([worker], sqlite, secret_key=sealing) as rt:
        result = await asyncio.wait_for((await rt.handle(handle.id)).result(), PATIENCE)
        assert_sound(await rt.get(handle.id))
    assert result.success, result.error
    here = pieces if sealing else PIECES  # values kept only in memory are lost with the process
    assert {key: bytes.fromhex(data) for key, data in result.output.items()} == here


async def test_what_somebody_else_wrote_is_left_out(store: str) -> None:
    forged: list[dict[str, Any]] = [
        {"key": "a", "size": "many", "content": "x"},
        {"key": "b", "size": 1, "artifact": "sha256-" + "0" * 64},
        {"key": "c", "size": 1, "base64": "?"},
        {"key": "d", "size": 1, "content": "x", "sealed": True},
        {"key": "e", "size": 5, "content": "x"},
        {"key": "f", "held": True, "size": 1},
        {"key": 5, "size": 1, "content": "x"},
    ]

    @tool
    async def worker(ctx: ToolContext) -> list[str]:
        for data in forged:
            ctx.note("forged", reason="checkpoint", **data)
        await ctx.checkpoint("z", b"real")
        return list(await ctx.checkpoints())

    async with make([worker], store) as rt:
        assert (await rt.call("worker")).output == ["z"]


async def test_after_the_end_nothing_is_kept(store: str) -> None:
    released = asyncio.Event()
    warnings: list[str] = []

    @tool(timeout=0.05, max_retries=0)
    async def worker(ctx: ToolContext) -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        try:
            await ctx.checkpoint("late", b"x")
        except UsageError as error:
            warnings.append(error.message)

    async with make([worker], store) as rt:
        result = await rt.call("worker")
        assert result.state is State.TIMEOUT
        released.set()
        await eventually(lambda: warnings)
        assert "the call has ended" in warnings[0]
        assert not notes(await rt.get(result.call_id))
