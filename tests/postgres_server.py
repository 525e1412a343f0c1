"""A real PostgreSQL server for tests: its own folder, a free port on loopback, removed after the test."""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from psycopg import pq

__all__ = ["PostgresServer", "postgres_server"]

_WAIT = 120.0
_ROOM = 2 * 1024**3  # bytes; a cluster takes some 100 MB, and each process of a run may have two
_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/opt/postgresql*/bin", "/opt/homebrew/bin")


@contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """A server that runs inside the block; `settings` are its own, as in postgresql.conf."""
    server = PostgresServer(**settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


class PostgresServer:
    """A cluster in its own folder, with its postmaster as a child of this process."""

    def __init__(self, **settings: str) -> None:
        self.folder = _folder("clicket-postgres-", _memory())
        self.port = _free_port()
        self.settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._paused: list[int] = []
        subprocess.run(["cp", "-a", f"{_template()}/.", str(self.folder)], check=True)

    def url(self, database: str = "postgres", user: str = "postgres", password: str = "") -> str:
        return f"postgresql://{user}{password and ':' + password}@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        """Of the postmaster; the other processes are its children."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def start(self) -> None:
        """Start, and wait until the server accepts connections."""
        own = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            "shared_buffers": "16MB",
            "autovacuum": "off",  # thousands of small tables come and go
            **self.settings,
        }
        options = [part for name, value in own.items() for part in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", str(self.folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **_as_user(),  # type: ignore[call-overload]  # user, group and groups as Popen takes them
            )
        give_up_at = time.monotonic() + _WAIT
        address = f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres connect_timeout=5".encode()
        while pq.PGconn.ping(address) != pq.Ping.OK:
            if self._process.poll() is not None or time.monotonic() > give_up_at:
                raise RuntimeError(f"PostgreSQL did not start:\n{self.log[-2000:]}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """End the postmaster and wait for all of its processes. SIGINT: fast; SIGQUIT: at once, as after a crash."""
        if self._process is None:
            return
        self.resume()
        pids = _children(self._process.pid)
        self._process.send_signal(how)
        try:
            self._process.wait(_WAIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
        _wait_gone(pids)

    def kill(self) -> None:
        """SIGKILL the postmaster; its processes notice and exit."""
        self.stop(signal.SIGKILL)

    def restart(self, *, immediate: bool = True) -> None:
        self.stop(signal.SIGQUIT if immediate else signal.SIGINT)
        self.start()

    def pause(self) -> None:
        """SIGSTOP everything: the kernel still accepts connections into the backlog, but the server never answers."""
        assert self._process is not None
        self._paused = [self._process.pid]
        os.kill(self._process.pid, signal.SIGSTOP)
        for pid in _children(self._process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self._paused.append(pid)

    def resume(self) -> None:
        paused, self._paused = self._paused, []
        for pid in reversed(paused):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)

    def close(self) -> None:
        self.stop(signal.SIGQUIT)  # its files are not needed any more: no checkpoint
        _remove_shared_memory(self.folder / "data" / "postmaster.pid")
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def _template() -> Path:
    """A cluster made by initdb, once for each test run: the processes of a run share it, and the last one to end removes it."""
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", f"{os.getpid()}-{time.time_ns()}")
    folder = Path(tempfile.gettempdir(), f"clicket-initdb-{run}")
    lock = _using(folder)
    atexit.register(_leave, folder, lock)
    fcntl.lockf(lock, fcntl.LOCK_EX, 1, _MAKING)
    if not folder.exists():
        made = _folder("clicket-initdb-")
        try:
            _initdb(made)
            made.rename(folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    fcntl.lockf(lock, fcntl.LOCK_UN, 1, _MAKING)
    return folder


_USING, _MAKING = (
    0,
    1,
)  # bytes of the file beside the folder that processes lock: all that use it, the one that makes it


def _using(folder: Path) -> int:
    """The locked file; one that another process removed meanwhile protects nothing."""
    path = Path(f"{folder}.lock")
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.lockf(lock, fcntl.LOCK_SH, 1, _USING)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        os.close(lock)


def _leave(folder: Path, lock: int) -> None:
    with suppress(BlockingIOError, PermissionError):  # another process uses it
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _USING)
        shutil.rmtree(folder, ignore_errors=True)
        Path(f"{folder}.lock").unlink(missing_ok=True)
    os.close(lock)


def _initdb(folder: Path) -> None:
    command = [_program("initdb"), "-D", str(folder / "data"), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    done = subprocess.run(
        [*command, "--no-locale", "--no-sync"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        **_as_user(),  # type: ignore[call-overload]  # as above
    )
    if done.returncode != 0:
        raise RuntimeError(f"initdb failed:\n{done.stdout}{done.stderr}")


@cache
def _program(name: str) -> str:
    found = shutil.which(name)
    if found is not None:
        return found
    for place in _PLACES:
        folder = Path(place)
        for program in sorted(
            Path(folder.anchor).glob(str(folder.relative_to(folder.anchor)) + f"/{name}"), reverse=True
        ):
            return str(program)
    raise RuntimeError(f"there is no {name}: install PostgreSQL's server (Debian: postgresql-15)")


def _as_user() -> dict[str, object]:
    """PostgreSQL refuses to run as root: then it runs as another user."""
    if os.geteuid() != 0:
        return {}
    who = _unprivileged_user()
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}


def _unprivileged_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _memory() -> Path | None:
    """Where files are in memory, if there is room: nothing waits for the disk. What a server wrote survives its kill there as well."""
    folder = Path("/dev/shm")
    return folder if os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _ROOM else None


def _folder(prefix: str, within: Path | None = None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    if os.geteuid() == 0:
        os.chown(folder, _unprivileged_user().pw_uid, _unprivileged_user().pw_gid)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    if listed.exists():
        return [int(child) for child in listed.read_text().split()]
    done = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(child) for child in done.stdout.split()]


def _wait_gone(pids: list[int]) -> None:
    """A new postmaster refuses to start while processes of the old one are attached to its memory."""
    give_up_at = time.monotonic() + _WAIT
    for pid in pids:
        while _exists(pid):
            if time.monotonic() > give_up_at:
                raise RuntimeError(f"process {pid} of PostgreSQL does not end")
            time.sleep(0.01)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    with suppress(OSError, IndexError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return not stat.parent.parent.joinpath("self").exists()


def _remove_shared_memory(postmaster: Path) -> None:
    """A killed server leaves its System V segment; postmaster.pid has its key and number."""
    with suppress(OSError, IndexError, ValueError):
        segment = int(postmaster.read_text().splitlines()[6].split()[1])
        ctypes.CDLL(None).shmctl(segment, 0, None)  # 0 is IPC_RMID
