"""Landlock: a program can open only what is listed; as root and as an ordinary user, under every version."""

from __future__ import annotations

import errno
import os
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interpreter.sandbox.bound import run

from clicket.interpreter.sandbox import landlock

USER = 54322
EACCES, EPERM, EXDEV, OK = -errno.EACCES, -errno.EPERM, -errno.EXDEV, "ok"

_TRY = """
    import socket, shutil
    inside, outside = {inside!r}, {outside!r}
    if {uid}:
        os.setgroups([]); os.setresgid({uid}, {uid}, {uid}); os.setresuid({uid}, {uid}, {uid})
    if {version}:
        known = landlock.version
        landlock.version = lambda: min({version}, known())
    os.chdir(inside)
    landlock.apply({rules!r})
    del sys.path[0]

    def does(what, *arguments, **more):
        try:
            what(*arguments, **more)
        except OSError as error:
            return -error.errno
        return "ok"

    def write(path, mode="w"):
        with open(path, mode) as file:
            file.write("x")

    found = {{
        "read": does(open, outside + "/secret"), "list": does(os.listdir, outside), "write": does(write, outside + "/secret"),
        "make": does(write, outside + "/new"), "folder": does(os.mkdir, outside + "/new"),
        "unlink": does(os.unlink, outside + "/secret"), "move out": does(os.rename, "mine", outside + "/mine"),
        "link in": does(os.link, outside + "/secret", "stolen"), "truncate": does(os.truncate, outside + "/secret", 0),
        "symlink": does(os.symlink, outside + "/secret", "link") == "ok" and does(open, "link"),
        "by parent": does(open, "../outside/secret"), "by descriptor": does(open, "secret", opener=lambda p, f: os.open(
            p, f, dir_fd=os.open(outside, os.O_PATH))), "run": does(os.execv, outside + "/tool", ["tool"]),
        "shadow": does(open, "/etc/shadow"), "host's process": does(open, f"/proc/{{os.getppid()}}/environ"),
        "device": does(open, "/dev/full", "wb"),
        "mine": does(write, "mine"), "shown": does(open, {shown!r}), "shown, written": does(write, {shown!r}, "a"),
        "folders": does(os.makedirs, "a/b"), "between": does(os.rename, "mine", "a/b/mine"),
        "short": does(os.truncate, "long", 1), "null": does(write, "/dev/null"), "random": does(open, "/dev/urandom"),
        "own process": does(open, "/proc/self/status"), "child": subprocess.run(["cat", outside + "/secret"],
            stderr=subprocess.DEVNULL).returncode,
        "signal": does(os.kill, os.getppid(), 0), "signal, own": does(os.kill, os.getpid(), 0),
        "tcp": does(socket.socket().connect, ("127.0.0.1", {port})),
        "bind": does(socket.socket().bind, ("127.0.0.1", 0)),
        "abstract": does(socket.socket(socket.AF_UNIX).connect, {name!r}),
    }}
    answer(found)
"""
REFUSED: dict[str, Any] = {
    **dict.fromkeys(("read", "list", "write", "make", "folder", "unlink", "truncate", "symlink", "by parent"), EACCES),
    **dict.fromkeys(("by descriptor", "run", "shadow", "host's process", "device", "shown, written"), EACCES),
    "move out": EACCES,
    "link in": EXDEV,
    "child": 1,
    "signal": EPERM,
    "tcp": EACCES,
    "bind": EACCES,
    "abstract": EPERM,
}
GIVEN = dict.fromkeys(
    ("mine", "shown", "folders", "between", "short", "null", "random", "own process", "signal, own"), OK
)


@pytest.fixture
def listeners() -> Iterator[tuple[int, str]]:
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        tcp.bind(("127.0.0.1", 0))
        unix.bind(f"\0clicket-fence-{os.getpid()}")
        tcp.listen()
        unix.listen()
        yield tcp.getsockname()[1], unix.getsockname().decode()


def tried(library: Path, folder: Path, listeners: tuple[int, str], *, uid: int = 0, version: int = 0) -> Any:
    folder.chmod(0o755)
    inside, outside, shown = folder / "inside", folder / "outside", folder / "shown"
    for path in (inside, outside, shown):
        path.mkdir()
    for path in (inside / "mine", inside / "long", outside / "secret", shown / "text"):
        path.write_text("text")
    (outside / "tool").write_text("#!/bin/sh\n")
    (outside / "tool").chmod(0o755)
    for path in [inside, *inside.iterdir(), outside, *outside.iterdir()]:  # the file modes are not what keeps it out
        os.chown(path, uid, uid)
    read = [*landlock.SYSTEM_READ, shown / "text", sys.prefix, sys.base_prefix, library, folder / "not there"]
    code = _TRY.format(
        inside=str(inside),
        outside=str(outside),
        shown=str(shown / "text"),
        rules=landlock.rules(read=read, write=[inside, *landlock.SYSTEM_WRITE]),
        uid=uid,
        version=version,
        port=listeners[0],
        name=listeners[1],
    )
    found = run(library, code)
    assert (outside / "secret").exists()
    assert sorted(path.name for path in outside.iterdir()) == ["secret", "tool"]
    return found


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter: pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="clicket-fence-") as name:
        yield Path(name)


@pytest.mark.parametrize("uid", [0, USER], ids=["root", "user"])
def test_only_what_is_named_can_be_opened(
    library: Path, open_folder: Path, listeners: tuple[int, str], uid: int
) -> None:
    assert tried(library, open_folder, listeners, uid=uid) == REFUSED | GIVEN


@pytest.mark.parametrize("version", range(1, landlock.version()))
def test_an_older_kernel_gives_what_it_has(
    library: Path, open_folder: Path, listeners: tuple[int, str], version: int
) -> None:
    expected = REFUSED | GIVEN
    if version < 2:
        expected["between"] = EXDEV
    if version < 3:
        expected["truncate"] = OK
    if version < 4:
        expected |= {"tcp": OK, "bind": OK}
    if version < 6:
        expected |= {"signal": OK, "abstract": OK}
    assert tried(library, open_folder, listeners, version=version) == expected
    lacking = [needed for needed in (2, 3, 4, 5, 6) if version < needed]
    assert [int(text.split("needs ")[1][:-1]) for text in landlock.gaps(version)[:-1]] == lacking


def test_a_folder_to_write_must_be_there(library: Path, tmp_path: Path) -> None:
    code = f"""
        try:
            landlock.apply({landlock.rules(read=["/"], write=[tmp_path / "gone"])!r})
        except FileNotFoundError as error:
            answer([str(error.filename), os.path.exists("/etc/passwd"), bool(open("/etc/passwd").read())])
    """
    assert run(library, code) == [str(tmp_path / "gone"), True, True]


def test_no_landlock_is_said_and_not_passed_over(library: Path) -> None:
    code = """
        landlock.version = lambda: 0
        try:
            landlock.apply({"read": ["/"], "write": []})
        except OSError as error:
            answer(str(error))
    """
    assert "no Landlock" in run(library, code)
