"""Starts the servers and worker processes that the tests of engines need."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.waiting import eventually_sync

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def temporal_server(folder: Path) -> Iterator[str]:
    """Temporal's development server, without its web pages; yields the address."""
    port = free_port()
    program = Path(sys.executable).with_name("temporal")
    command = [str(program), "server", "start-dev", "--headless", "--port", str(port), "--log-level", "error"]
    with (folder / "temporal.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            eventually_sync(lambda: answers(port), timeout=60)
            yield f"127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(30)


@contextmanager
def program(name: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """One of the programs in this folder. It has printed `up`, and is killed at the end."""
    made = start_program(name, *arguments)
    try:
        yield made
    finally:
        kill(made)


def start_program(name: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests/engines" / name), *arguments]
    made = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
    assert made.stdout is not None
    line = made.stdout.readline()
    assert line == "up\n", f"{name} printed {line!r}"
    return made


def kill(running: subprocess.Popen[Any]) -> None:
    if running.poll() is None:
        running.send_signal(signal.SIGKILL)
    running.wait(30)
    if running.stdout is not None:
        running.stdout.close()


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
