"""Real servers for one contender: fresh, on free ports of loopback, on the disk that all contenders share, ended with it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from benchmarks.environments import CACHE

__all__ = ["ServerFailed", "running"]

_PATIENCE = 60.0
_Started = tuple[str, str, str]
"""The environment variable for the server's URL, the URL, and the version."""


_pids: list[int] = []
"""Process ids of the running servers, so that a contender can count their CPU time."""


class ServerFailed(Exception):
    """The server could not be started; the message has the reason."""


@contextmanager
def running(names: Iterable[str], scratch: Path) -> Iterator[dict[str, str]]:
    """Start the named servers. Yields the environment variables with their URLs."""
    with ExitStack() as stack:
        found: dict[str, str] = {}
        _pids.clear()
        versions: dict[str, str] = {}
        for name in names:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True)))
            try:
                variable, url, version = stack.enter_context(_SERVERS[name](folder))
            except (ImportError, OSError, RuntimeError) as error:
                raise ServerFailed(f"no server for {name}: {' '.join(str(error).split())}") from error
            found[variable] = url
            versions[f"{name.partition('-')[0]} server"] = version
        yield {**found, "BENCH_SERVERS": json.dumps(versions), "BENCH_SERVER_PIDS": " ".join(map(str, _pids))}


def _note_pid(pid: int) -> None:
    _pids.append(pid)


def _redis(fsync: str) -> Callable[[Path], AbstractContextManager[_Started]]:
    @contextmanager
    def start(folder: Path) -> Iterator[_Started]:
        from tests.redis_server import redis_server

        with redis_server(folder, "--appendonly", "yes", "--appendfsync", fsync) as server:
            assert server.process is not None
            _note_pid(server.process.pid)
            yield "BENCH_REDIS", server.url, _version("redis-server")

    return start


@contextmanager
def _postgres(folder: Path) -> Iterator[_Started]:
    """With PostgreSQL's default settings: every commit waits for the disk."""
    from tests.postgres_server import postgres_server

    tempfile.tempdir = str(folder.parent)  # it makes its own folder, which must be on the same disk as the others
    with postgres_server(shared_buffers="128MB") as server:
        _note_pid(server.pid)
        yield "BENCH_POSTGRES", server.url(), _version("postgres")


@contextmanager
def _nats(folder: Path) -> Iterator[_Started]:
    """Core NATS, as shipped: it carries messages and stores nothing."""
    from tests.nats_server import nats_server, program

    with nats_server() as server:
        assert server.process is not None
        _note_pid(server.process.pid)
        yield "BENCH_NATS", server.url, _version(program())


@contextmanager
def _temporal(folder: Path) -> Iterator[_Started]:
    """Temporal's development server, keeping its state in a file: the one that installs without a cluster."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = ("127.0.0.1", int(probe.getsockname()[1]))
    program = str(CACHE / "temporal" / "bin" / "temporal")
    command = [program, "server", "start-dev", "--headless", "--log-level", "never", "--ip", address[0]]
    command += ["--port", str(address[1]), "--db-filename", str(folder / "temporal.db")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        _await(process, address, folder / "log")
        yield "BENCH_TEMPORAL", f"{address[0]}:{address[1]}", _version(program)
    finally:
        process.kill()  # its data is deleted with the folder
        process.wait()


def _await(process: subprocess.Popen[bytes], address: tuple[str, int], log: Path) -> None:
    give_up_at = time.monotonic() + _PATIENCE
    while True:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex(address) == 0:
                return
        if process.poll() is not None or time.monotonic() > give_up_at:
            raise RuntimeError(f"it did not start: {log.read_text(errors='replace')[-200:]}")
        time.sleep(0.05)


def _version(program: str) -> str:
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(?:Server |v=|PostgreSQL\) |nats-server: v)([0-9.]+)", output)
    return found[1] if found else output.strip()


_SERVERS: dict[str, Callable[[Path], AbstractContextManager[_Started]]] = {
    "redis-everysec": _redis("everysec"),
    "redis-always": _redis("always"),
    "postgres": _postgres,
    "nats": _nats,
    "temporal": _temporal,
}
