"""A real redis-server for tests: on a free port of loopback, in its own folder, ended by its pid."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["RedisServer", "free_port", "redis_server", "start_redis"]

_READY = 120.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class RedisServer:
    """One server that can be killed and restarted over the same folder."""

    def __init__(self, folder: Path, args: tuple[str, ...]) -> None:
        self.folder = folder
        self.args = args
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self, *more: str) -> None:
        """Returns when it answers. If another process took the port meanwhile, the first start picks another port."""
        if shutil.which("redis-server") is None:  # a needed server that is missing fails the run
            raise FileNotFoundError("redis-server is not installed. Debian: apt-get install redis-server")
        give_up_at = time.monotonic() + _READY
        while True:
            with (self.folder / "log").open("ab") as log:
                command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
                command += ["--save", "", "--daemonize", "no", *self.args, *more]
                self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            while self.process.poll() is None:
                if self.ask("PING") == "+PONG":
                    return
                if time.monotonic() > give_up_at:
                    self.kill()
                    raise TimeoutError(f"redis-server did not answer: {self.log()}")
                time.sleep(0.01)
            if "Address already in use" not in self.log() or time.monotonic() > give_up_at:
                raise RuntimeError(f"redis-server did not start: {self.log()}")
            (self.folder / "log").write_text("")
            self.port = free_port()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-1000:]

    def ask(self, *words: str) -> str:
        """One command over a new connection; the first line of the answer, or an empty one if there is none."""
        text = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=5.0) as line:
            line.sendall(text.encode())
            return line.makefile("rb").readline().decode(errors="replace").rstrip()
        return ""

    def kill(self) -> None:
        """SIGKILL: the server loses what it had not written."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, how: int) -> None:
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGCONT)
                os.kill(self.process.pid, how)
            self.process.wait(_READY)
            self.process = None

    def pause(self) -> None:
        """The server hangs: connections stay open without answers."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGCONT)


def start_redis(folder: Path, *args: str) -> RedisServer:
    """A running server. `args` are options of redis-server; the default keeps nothing on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    server = RedisServer(folder, args)
    server.start()
    return server


@contextmanager
def redis_server(folder: Path, *args: str) -> Iterator[RedisServer]:
    """The same, ended with the block."""
    server = start_redis(folder, *args)
    try:
        yield server
    finally:
        server.kill()
