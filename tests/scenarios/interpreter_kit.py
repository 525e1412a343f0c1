"""Shared by the scenarios of the tool `code_interpreter`: a runtime with the tool, and ways to follow its programs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.kit import make

from clicket import Runtime
from clicket.interpreter import code_interpreter
from clicket.interpreter.tool.tool import CodeInterpreter

NAME = "code_interpreter"
STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("deaf", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def cache_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def interpreter(**options: Any) -> CodeInterpreter:
    return code_interpreter(**{"warm": False, "grace": 0.3, **options})


def runtime(tool: CodeInterpreter, store: str = "memory://", **settings: Any) -> Runtime:
    return make([tool], store, **{"cancel_grace": 5.0, **settings})


async def ran(rt: Runtime, task: str, **options: Any) -> Any:
    return await rt.call(NAME, {"task": task, **options.pop("arguments", {})}, **options)


def messages(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [e.data["content"] for e in events if e.type == "output"]


def pids_of(tool: CodeInterpreter, key: Any) -> list[int]:
    session = tool.sessions[key].interpreter.session
    return [] if session is None else session.process.pids()


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for listed in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listed.read_text().split()):
            found |= {child} | descendants(child)
    return found


async def until_printed(handle: Any, text: str) -> None:
    async with aclosing(handle.events()) as events:
        async for event in events:
            content = event.data.get("content")
            if isinstance(content, dict) and content["type"] == "stdout" and text in content["content"]:
                return
    raise AssertionError(f"{text!r} was not printed")


async def ended(rt: Runtime, id: str) -> Any:
    record = await rt.get(id)
    return record if record.state.is_terminal else None
