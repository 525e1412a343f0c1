"""JSON log lines: one object per record, for any message, with its call."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from tests.scenarios.kit import make

from clicket import tool
from clicket.errors import UsageError
from clicket.telemetry.logs import CallFilter, JsonFormatter, configure, follow

log = logging.getLogger("a.tool.of.ours")


class Lines(list[dict[str, Any]]):
    """The log records, parsed."""

    def of(self, message: str) -> dict[str, Any]:
        return next(line for line in self if line["message"] == message)


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    text = io.StringIO()
    root, level = logging.getLogger(), logging.getLogger().level
    handler = configure("json", stream=text)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


def lines(stream: io.StringIO) -> Lines:
    return Lines(json.loads(line) for line in stream.getvalue().splitlines())


@tool
async def on_the_loop(x: int) -> int:
    log.info("loop %d", x)
    await asyncio.sleep(0)
    log.info("loop again %d", x)
    return x


@tool
def in_a_thread(x: int) -> int:
    log.info("thread %d", x)
    return x


@tool(isolation="inline")
def inline(x: int) -> int:
    log.info("inline %d", x)
    return x


@tool
async def breaks() -> None:
    log.warning("about to break", extra={"colour": "red"})
    raise ValueError("no")


WORDS = {"on_the_loop": ["loop", "loop again"], "in_a_thread": ["thread"], "inline": ["inline"]}


async def test_lines_of_a_tool_carry_its_call(stream: io.StringIO) -> None:
    rt = make([on_the_loop, in_a_thread, inline])
    follow(rt)
    async with rt:
        results = await rt.call_many(
            [{"tool": name, "arguments": {"x": x}, "thread": f"t{x}"} for x in range(3) for name in WORDS]
        )  # fmt: skip
        log.info("nobody's")
    logged = lines(stream)
    for result in results:
        x = result.output
        words = WORDS[result.tool]
        for word in words:
            line = logged.of(f"{word} {x}")
            assert (line["call_id"], line["thread"], line["tool"]) == (result.call_id, f"t{x}", result.tool)
            assert (line["attempt"], line["level"], line["logger"]) == (1, "info", "a.tool.of.ours")
    assert "call_id" not in logged.of("nobody's")


async def test_handed_over_calls_are_distinguished_by_their_callers(stream: io.StringIO) -> None:
    """A direct call runs in its caller's task: later log records of the caller do not belong to the call."""
    async with make([on_the_loop]) as rt:
        follow(rt)
        handle = await rt.submit("on_the_loop", {"x": 1})
        await handle.result()
        await rt.call("on_the_loop", {"x": 2})
        log.info("after")
    logged = lines(stream)
    assert logged.of("loop 1")["call_id"] == handle.id
    assert logged.of("loop again 2")["call_id"] != handle.id
    assert "call_id" not in logged.of("after")


async def test_a_failure_says_its_reason_and_has_its_traceback_on_the_same_line(stream: io.StringIO) -> None:
    async with make([breaks]) as rt:
        follow(rt)
        await rt.call("breaks", id="bad")
        await rt.call("breaks", {"x": "y" * 1_000}, id="refused")
    raised = next(line for line in lines(stream) if line["logger"] == "clicket.tools")
    assert raised["message"] == "breaks raised in attempt 1 of call 'bad'"
    assert raised["exception"].startswith("Traceback (most recent call last):\n  File ")
    assert raised["exception"].endswith("\nValueError: no")
    failed, refused = (line["message"] for line in lines(stream) if line["logger"] == "clicket.calls")
    assert failed == "breaks failed: tool_error: ValueError: no"
    assert refused.startswith("breaks failed: invalid_input: /x")
    assert len(refused) < 350


async def test_every_end_is_a_line_without_content(stream: io.StringIO) -> None:
    async with make([on_the_loop, breaks]) as rt:
        follow(rt)
        follow(rt)  # a second time has no effect
        await rt.call("on_the_loop", {"x": 77001}, id="fine", thread="t")
        await rt.call("breaks", id="bad")
        await rt.call("nothing", id="unknown")
    ends = {line["call_id"]: line for line in lines(stream) if line["logger"] == "clicket.calls"}
    assert len([line for line in lines(stream) if line["logger"] == "clicket.calls"]) == 3
    assert (ends["fine"]["state"], ends["fine"]["level"], ends["fine"]["thread"]) == ("completed", "info", "t")
    assert ends["fine"]["duration"] > 0
    assert (ends["bad"]["state"], ends["bad"]["level"], ends["bad"]["code"]) == ("failed", "warning", "tool_error")
    assert ends["unknown"]["code"] == "tool_not_found"
    assert "77001" not in json.dumps(ends)
    assert lines(stream).of("about to break")["colour"] == "red"


@pytest.mark.parametrize(
    "value", [float("nan"), {1, 2}, object(), b"\xff", "\ud800", {"a": {(1, 2): 3}}, [float("inf")]]
)
def test_no_value_costs_a_line(value: object) -> None:
    record = logging.makeLogRecord(
        {"msg": "odd %s", "args": ("one\nline",), "odd": value, "name": "n", "levelname": "INFO"}
    )
    text = JsonFormatter().format(record)
    assert "\n" not in text
    line = json.loads(text)
    assert line["message"] == "odd one\nline"
    assert "odd" in line


def test_exceptions_are_on_the_same_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        record = logging.makeLogRecord({"msg": "x", "exc_info": (ValueError, error, error.__traceback__)})
    text = JsonFormatter().format(record)
    assert "\n" not in text
    assert "ValueError: two" in json.loads(text)["exception"]


async def test_text_lines_name_the_call() -> None:
    text = io.StringIO()
    handler = configure("text", stream=text)
    try:
        async with make([on_the_loop]) as rt:
            follow(rt)
            result = await rt.call("on_the_loop", {"x": 5})
    finally:
        logging.getLogger().removeHandler(handler)
    assert f"a.tool.of.ours loop 5 [call {result.call_id}]" in text.getvalue()


def test_a_filter_of_ones_own_handler_works_alone() -> None:
    record = logging.makeLogRecord({"msg": "x"})
    assert CallFilter().filter(record)
    assert record.call_suffix == ""


def test_other_formats_are_refused() -> None:
    with pytest.raises(UsageError, match="text or json"):
        configure("xml")  # type: ignore[arg-type]
