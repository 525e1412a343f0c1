"""A scripted session that takes the machine through every course of a run."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import msgspec

from clicket.interpreter import Interpreter
from clicket.interpreter.result import ProgramError, Variable
from clicket.interpreter.run.messages import Message
from clicket.interpreter.session.block_run import BlockEnd, BlockItem, DisplayItem, OutputItem
from clicket.interpreter.session.exit_reason import ExitReason, SessionGone
from clicket.interpreter.session.protocol import ErrorFrame
from clicket.interpreter.session.session import Checked
from clicket.kernel import CODE, CodeState
from clicket.sandbox import Isolation

ISOLATION = Isolation(level="full", layers=("environment",))


class Act(msgspec.Struct, frozen=True, kw_only=True):
    """What one block does: its messages, how it ends, and whether it first waits to be stopped."""

    status: str = "ok"
    reason: str | None = None
    says: tuple[str, ...] = ()
    shows: int = 0
    variables: tuple[str, ...] = ()
    waits: bool = False
    stubborn: bool = False
    lucky: bool = False
    """It ends successfully at the moment when it is stopped."""
    deaf: bool = False
    """It ignores the request to stop."""


class SandboxProcess:
    def __init__(self, folder: Path) -> None:
        self.uid = None
        self.work_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)


class ScriptedSession:
    """Blocks are acts, in order. A text with `!!` does not compile; `?name` in it reads a name, `=name` binds one."""

    def __init__(self, folder: Path, acts: Iterable[Act] = (), *, names: Iterable[str] = (), check: str = "") -> None:
        self.process = SandboxProcess(folder)
        self.isolation = ISOLATION
        self.names = frozenset(names)
        self.alive = True
        self.exit_reason: ExitReason | None = None
        self.acts = list(acts)
        self.checks: list[list[str]] = []
        self.begun: list[tuple[str, str]] = []
        self.stops: list[str] = []
        self.rested = 0
        self.closed = False
        self.waiting = asyncio.Event()
        self._dies_of_check = check
        self._told: list[BlockItem] = []
        self._sent = ("", "")
        self._on_checked: Callable[[Checked], None] | None = None
        self._stopped = asyncio.Event()

    async def check(self, codes: Sequence[str], timeout: float) -> list[Checked]:
        self.checks.append(list(codes))
        if self._dies_of_check:
            self._die("killed", self._dies_of_check)
            assert self.exit_reason is not None
            raise SessionGone(self.exit_reason)
        return [_checked(code) for code in codes]

    def begin(
        self,
        code: str,
        *,
        name: str,
        timeout: float | None,
        on_checked: Callable[[Checked], None] | None = None,
        uses: object = None,
    ) -> None:
        assert self.alive
        assert not self._told
        self._stopped.clear()
        self._sent = (code, name)
        self._on_checked = on_checked
        if on_checked is None:
            self.begun.append(self._sent)

    async def watch(self) -> AsyncIterator[BlockItem]:
        on_checked, self._on_checked = self._on_checked, None
        if on_checked is not None and not await self._compiles(on_checked):
            yield BlockEnd(status="error") if self.exit_reason is None else BlockEnd(status=self.exit_reason.status)
            return
        act = self.acts[len(self.begun) - 1] if len(self.begun) <= len(self.acts) else Act()
        for text in act.says:
            yield OutputItem(stream="stdout", text=text)
        for group in range(act.shows):
            yield DisplayItem(mime="text/html", data="<b>", group=group)
        ended = BlockEnd(status=act.status, reason=act.reason)  # type: ignore[arg-type]
        if act.waits:
            self.waiting.set()
            await self._stopped.wait()
            if act.stubborn or not self.alive:
                self._die("killed", "cancel")
                ended = BlockEnd(status="killed", reason="cancel")
            elif not act.lucky:
                ended = BlockEnd(status="interrupted", reason="cancel")
        elif act.status in ("killed", "crashed"):
            self._die(act.status, act.reason or "")
        elif act.status == "error":
            ended = msgspec.structs.replace(ended, error=ProgramError(type="ValueError", message="no", line=1))
        made = tuple(Variable(name=name, type="int", value="1") for name in act.variables)
        self.names |= frozenset(act.variables)
        yield msgspec.structs.replace(
            ended, variables=made, names=self.names, exit_code=3 if act.status == "exit" else None
        )

    async def _compiles(self, on_checked: Callable[[Checked], None]) -> bool:
        """The check before a block that is sent to run at once."""
        try:
            [answer] = await self.check([self._sent[0]], 1.0)
        except SessionGone:
            return False
        await asyncio.sleep(0)
        if answer.error is None:
            self.begun.append(self._sent)
        on_checked(answer)
        return answer.error is None

    async def stop(self, reason: str) -> None:
        self.stops.append(reason)
        if not any(act.deaf for act in self.acts):
            self._stopped.set()
        await self._stopped.wait()

    def kill(self, reason: str) -> None:
        self._die("killed", reason)
        self._stopped.set()

    def idle(self) -> None:
        self.rested += 1

    async def close(self) -> None:
        assert not self.closed, "closed twice"
        self.closed = True
        if self.alive:
            self.kill("cancel")
        os.close(self.process.work_fd)

    def _die(self, status: str, reason: str) -> None:
        self.alive = False
        self.exit_reason = ExitReason(status=status, reason=reason, detail="as the script says")  # type: ignore[arg-type]


def _checked(code: str) -> Checked:
    words = code.split()
    error = None
    if "!!" in code or ("```" in code.replace('"""', "").split("#")[0] and '"""' not in code):
        error = ErrorFrame(type="SyntaxError", message="invalid syntax", line=1)
    elif code.count('"""') % 2:
        error = ErrorFrame(type="SyntaxError", message="unterminated triple-quoted string literal", line=1)
    elif "prose" in words:
        error = ErrorFrame(type="SyntaxError", message="invalid syntax", line=1)
    loads = tuple(word[1:] for word in words if word.startswith("?"))
    stores = tuple(word[1:] for word in words if word.startswith("="))
    imports = tuple(word[1:] for word in words if word.startswith("@"))
    return Checked(error=error, loads=loads, stores=stores, imports=imports)


GOOD = ["parsing", "validating", "preparing", "executing", "monitoring"]


class ScriptedInterpreter:
    """An interpreter whose sessions are scripted."""

    def __init__(self, *scripts: list[Act], check: str = "", **options: Any) -> None:
        self.scripts = list(scripts)
        self.sessions: list[ScriptedSession] = []
        self.check = check
        self.folder = tempfile.TemporaryDirectory()
        self.interpreter = Interpreter(start=lambda: self.start(), **options)  # type: ignore[arg-type]  # noqa: PLW0108 -- a test may replace `start`

    async def start(self) -> ScriptedSession:
        acts = self.scripts.pop(0) if self.scripts else []
        self.sessions.append(ScriptedSession(Path(self.folder.name), acts, check=self.check))
        return self.sessions[-1]

    async def __aenter__(self) -> Self:
        await self.interpreter.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.interpreter.close()
        self.folder.cleanup()
        assert all(session.closed for session in self.sessions)


def blocks(*codes: str) -> str:
    return "Some prose.\n\n" + "\n".join(f"```python\n{code}\n```" for code in codes)


async def told(ci: Interpreter, task: str, **options: Any) -> list[Message]:
    return [message async for message in ci.stream(task, **options)]


def states(messages: list[Message]) -> list[str]:
    """The states in the order of entry, each change starting where the last one ended."""
    changes = [message for message in messages if message["type"] == "state_change"]
    for before, after in pairwise(changes):
        assert before["to"] == after["from"]
    return [changes[0]["from"], *(change["to"] for change in changes)]


def check_laws(messages: list[Message]) -> None:
    kinds = [message["type"] for message in messages]
    assert kinds.count("final_result") == 1
    assert kinds[-1] == "final_result"
    entered = states(messages)
    for source, target in pairwise(entered):
        assert CodeState(target) in CODE.edges[CodeState(source)]
    assert CodeState(entered[-1]) in CODE.terminal
    assert kinds.count("error") == (entered[-1] == "error")
    started = [message["block_index"] for message in messages if message["type"] == "code_execution_start"]
    over = [
        message["block_index"]
        for message in messages
        if message["type"] in ("code_execution_complete", "code_execution_error")
    ]
    assert started == over == list(range(len(started)))
    assert kinds.count("execution_error") == kinds.count("code_execution_error")
    assert all(isinstance(message["timestamp"], float) for message in messages)
