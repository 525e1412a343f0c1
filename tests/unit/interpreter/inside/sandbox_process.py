"""The worker as a plain child of the test: no sandbox, the same frames. It can import only the modules that a sandbox has."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.waiting import PATIENCE

import clicket
from clicket.interpreter.sandbox import frames

SOURCE = Path(clicket.__file__).parent
START = (
    "import os, sys; os.set_inheritable({commands}, False); os.set_inheritable({answers}, False); "
    "sys.path.insert(0, {library!r}); from clicket.interpreter.inside.command_loop import main; "
    "main({commands}, {answers}, {settings!r}, ['none'])"
)


class BlockEnd(Exception):
    """The worker has closed the pipe."""


class SandboxProcess:
    def __init__(self, library: Path, work: Path, settings: dict[str, Any]) -> None:
        inside, self._commands = os.pipe()
        self._answers, outside = os.pipe()
        text = START.format(library=str(library), commands=inside, answers=outside, settings=settings)
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-X", "utf8", "-c", text],
            cwd=work,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(inside, outside),
            env={"PATH": "/usr/bin:/bin", "HOME": str(work), "MPLCONFIGDIR": str(work.parent / "matplotlib")},
        )
        os.close(inside)
        os.close(outside)
        self.work = work
        self._id = 0
        self._said = {"stdout": bytearray(), "stderr": bytearray()}
        self._readers = [
            threading.Thread(target=self._collect, args=(self.process.stdout, "stdout"), daemon=True),
            threading.Thread(target=self._collect, args=(self.process.stderr, "stderr"), daemon=True),
        ]
        self._taken = {"stdout": 0, "stderr": 0}
        self._news = threading.Condition()
        for reader in self._readers:
            reader.start()
        self.displays: list[dict[str, Any]] = []
        self.ready = self.answer()

    def _collect(self, pipe: Any, name: str) -> None:
        while data := os.read(pipe.fileno(), 1 << 16):
            with self._news:
                self._said[name] += data
                self._news.notify_all()

    def send(self, order: dict[str, Any]) -> int:
        self._id += 1
        frames.write(self._commands, {**order, "id": self._id})
        return self._id

    def answer(self) -> dict[str, Any]:
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        try:
            frame = frames.read(self._answers)
        finally:
            watchdog.cancel()
        if frame is None:
            raise BlockEnd
        return frame

    def begin(self, code: str, name: str | None = None) -> int:
        self.displays = []
        return self.send({"op": "exec", "code": code, "name": name or f"<block {self._id + 1}>"})

    def done(self) -> dict[str, Any]:
        while True:
            frame = self.answer()
            if frame["type"] == "done":
                assert frame["id"] == self._id
                return frame
            assert frame["type"] == "display"
            assert frame["id"] == self._id
            self.displays.append(frame)

    def run(self, code: str, name: str | None = None) -> dict[str, Any]:
        self.begin(code, name)
        return self.done()

    def check(self, *codes: str) -> list[dict[str, Any]]:
        self.send({"op": "check", "codes": list(codes)})
        return list(self.answer()["blocks"])

    def heard(self, text: str, stream: str = "stdout") -> bool:
        """Wait until the stream contains that, since the last `said`."""
        with self._news:
            return self._news.wait_for(
                lambda: self._said[stream].find(text.encode(), self._taken[stream]) >= 0, PATIENCE
            )

    def said(self, stream: str = "stdout") -> str:
        """The program's output since the last call. Ends with a marker, so that nothing in transit is missed."""
        mark = f"«{self._id}»"
        self.run(f"import os as _os; _ = _os.write({1 if stream == 'stdout' else 2}, {mark.encode()!r})", "<mark>")
        assert self.heard(mark, stream)
        start = self._taken[stream]
        whole = bytes(self._said[stream])
        end = whole.index(mark.encode(), start)
        self._taken[stream] = end + len(mark.encode())
        return whole[start:end].decode("utf-8", "replace")

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def has_begun_to_answer(self) -> bool:
        """Wait for the first bytes of a frame, and leave them in the pipe."""
        return bool(select.select([self._answers], [], [], PATIENCE)[0])

    def hang_up(self) -> None:
        """Like a dead host: close the pipe."""
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), self._commands)

    def exit_code(self) -> int:
        return self.process.wait(PATIENCE)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._commands)
        os.close(self._answers)
        for reader in self._readers:
            reader.join(PATIENCE)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


def lay_out(folder: Path) -> Path:
    """The clicket modules of a sandbox."""
    for package in ("clicket", "clicket/interpreter", "clicket/interpreter/inside", "clicket/interpreter/sandbox"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    for path in (SOURCE / "interpreter" / "sandbox" / "frames.py", *(SOURCE / "interpreter" / "inside").glob("*.py")):
        shutil.copy(path, folder / "clicket" / path.relative_to(SOURCE))
    return folder


@contextmanager
def started(library: Path, folder: Path, **settings: Any) -> Iterator[SandboxProcess]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    child = SandboxProcess(library, work, settings)
    try:
        yield child
    finally:
        child.close()
