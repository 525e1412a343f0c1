"""Commands as users run them: real processes in their own folder. Their output goes to files, so no pipe can fill up."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from tests.kit.children import PYTHONPATH
from tests.kit.forks import FORKED
from tests.kit.waiting import PATIENCE, eventually_sync

from clicket.cli import main

PROGRAM = (sys.executable, *FORKED, "-m", "clicket")


class Command:
    """A running command."""

    def __init__(self, place: Place, arguments: tuple[str, ...], environment: dict[str, str]) -> None:
        number = len(place.commands)
        self._out, self._err = place.folder / f"out-{number}", place.folder / f"err-{number}"
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                [*PROGRAM, *arguments],
                cwd=place.folder,
                env={**place.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    @property
    def out(self) -> str:
        return self._out.read_text()

    @property
    def err(self) -> str:
        return self._err.read_text()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The JSON lines that it wrote so far."""
        whole = [line for line in self.out.splitlines(keepends=True) if line.endswith("\n")]
        assert "{\n" not in whole, f"not lines of JSON: {self.out}{self.err}"
        return [json.loads(line) for line in whole]

    def wait_for(self, event: str, **facts: Any) -> dict[str, Any]:
        """A worker's first log line of this event with these fields."""
        return self.until(
            lambda: next(
                (e for e in self.lines if e["event"] == event and all(e.get(n) == v for n, v in facts.items())), None
            )
        )

    def until(self, look: Callable[[], Any]) -> Any:
        """The first true result, while the command lives."""

        def answered() -> Any:
            alive = self.process.poll() is None
            answer = look()
            assert answer or alive, f"ended before: {self.out}{self.err}"
            return answer

        try:
            return eventually_sync(answered)
        except AssertionError as error:
            error.add_note(f"{self.out}{self.err}")
            raise

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        """Its exit code, once it has one."""
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """SIGKILL, like a crash."""
        self.signal(signal.SIGKILL)
        self.process.wait(PATIENCE)


class Place:
    """A folder, a store, and the environment of its processes."""

    def __init__(self, folder: Path, store: str, tools: str, **settings: str) -> None:
        self.folder = folder
        self.store = store
        self.commands: list[Command] = []
        own = {key: value for key, value in os.environ.items() if not key.startswith(("CLICKET_", "COLUMNS"))}
        names = {"CLICKET_STORE": store, "CLICKET_TOOLS": tools, "PYTHONPATH": PYTHONPATH, "NO_COLOR": "1"}
        self.environment = {**own, **names, **settings}

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [*PROGRAM, *arguments], cwd=self.folder, env={**self.environment, **environment}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=PATIENCE,
        )  # fmt: skip

    def json(self, *arguments: str, **environment: str) -> Any:
        """A command's JSON output; the command must succeed."""
        done = self.run("--json", *arguments, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def inside(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """The same in this process, for commands that need no new process: it takes a tenth of the time."""
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        own = {**self.environment, **environment}
        before, path, modules = Path.cwd(), sys.path.copy(), set(sys.modules)
        with redirect_stdout(out), redirect_stderr(err), mock.patch.dict(os.environ, own, clear=True):
            os.chdir(self.folder)
            try:
                code = main(arguments)
            finally:
                os.chdir(before)
                sys.path[:] = path
                for name in sys.modules.keys() - modules:  # another test's folder may have a module of that name
                    if (getattr(sys.modules[name], "__file__", None) or "").startswith(f"{self.folder}/"):
                        del sys.modules[name]
        said = [_text(stream) for stream in (out, err)]
        return subprocess.CompletedProcess(arguments, code, *said)

    def ask(self, *arguments: str, **environment: str) -> Any:
        """`json`, in this process."""
        done = self.inside("--json", *arguments, **environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def start(self, *arguments: str, **environment: str) -> Command:
        command = Command(self, arguments, environment)
        self.commands.append(command)
        return command

    def worker(self, *options: str, **environment: str) -> Command:
        """A worker that has reported that it is ready."""
        worker = self.start("--json", "worker", *options, **environment)
        worker.wait_for("ready")
        return worker

    def touch(self, name: str) -> None:
        (self.folder / name).touch()

    def close(self) -> None:
        for command in self.commands:
            if command.process.poll() is None:
                command.kill()


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
