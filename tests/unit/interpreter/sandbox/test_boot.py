"""The first code inside: every requested layer is active before the program's first line, or that line never runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from clicket.interpreter.sandbox import boot, frames, landlock, rlimits, seccomp

PROGRAM = """
import os, signal, sys
from clicket.interpreter.sandbox import frames

def main(commands, answers, settings, layers):
    names = [int(name) for name in os.listdir("/proc/self/fd")]
    def is_open(fd):
        try:
            os.fstat(fd)
        except OSError:
            return False
        return True
    umask = os.umask(0)
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    frames.write(answers, {
        "type": "ready", "layers": layers, "settings": settings, "home": os.getcwd(), "umask": umask,
        "open": sorted(fd for fd in names if is_open(fd)),
        "inherited": [fd for fd in names if fd > 2 and is_open(fd) and os.get_inheritable(fd)],
        "blocked": int(status["SigBlk"], 16), "ignored": int(status["SigIgn"], 16), "path": sys.path[-1],
        "seccomp": int(status["Seccomp"]), "bound": int(status["NoNewPrivs"]),
    })
    if settings.get("then") == "raise":
        raise LookupError("the program's own")
    if settings.get("then") == "wait":
        frames.read(commands)
    import atexit
    atexit.register(print, "said at exit")
"""


@contextmanager
def booted(library: Path, folder: Path, order: bytes | dict[str, Any], **options: Any) -> Iterator[Any]:
    """A process that runs boot: (process, the descriptor of its answers, the descriptor of its input)."""
    (folder / "a_program.py").write_text(PROGRAM)
    commands, sender = os.pipe()
    give = os.fdopen(sender, "wb", 0)
    answers, tell = os.pipe()
    code = (
        f"import sys; sys.path[:0] = [{str(library)!r}, {str(folder)!r}]; "
        f"from clicket.interpreter.sandbox.boot import main; main({commands}, {tell})"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", "-c", code],
        pass_fds=(commands, tell, *options.pop("more", ())),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        **options,
    )
    os.close(commands)
    os.close(tell)
    give.write(order if isinstance(order, bytes) else frames.pack(order))
    try:
        with process:
            yield process, answers, give
            process.kill()
    finally:
        os.close(answers)
        give.close()


def order(folder: Path, **changes: Any) -> dict[str, Any]:
    return {"op": "boot", "program": "a_program", "home": str(folder), "settings": {}, "path": ["/extra"]} | changes


def all_layers(library: Path, folder: Path) -> dict[str, Any]:
    read = [*landlock.SYSTEM_READ, sys.prefix, sys.base_prefix, library, folder]
    code = seccomp.make_filter()
    assert code is not None
    return {
        "rlimits": rlimits.rules(memory=1 << 30, processes=64, file_size=1 << 20, open_files=64),
        "landlock": landlock.rules(read=read, write=[folder]),
        "seccomp": code.hex(),
    }


def test_the_program_gets_a_clean_process(library: Path, tmp_path: Path) -> None:
    stray, other = os.pipe()

    def dirty() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        os.umask(0)

    given = order(tmp_path, settings={"x": 1, "then": "wait"})
    with booted(library, tmp_path, given, preexec_fn=dirty, more=(stray, other)) as (_, answers, _give):
        found = frames.read(answers)
    os.close(stray)
    os.close(other)
    assert found is not None
    assert (found["layers"], found["settings"]) == ([], {"x": 1, "then": "wait"})
    assert found["home"] == str(tmp_path)
    assert found["umask"] == 0o077
    assert len(found["open"]) == 5
    assert found["inherited"] == []
    assert found["blocked"] == 0
    own = [signal.SIGPIPE, signal.SIGXFSZ]
    libcs_own = 1 << 32 - 1 | 1 << 33 - 1  # no program can set these two
    ignored = found["ignored"] & ~libcs_own
    assert ignored == sum(1 << number - 1 for number in own), "Python sees these two as exceptions"
    assert found["path"] == "/extra"


def test_all_layers_are_on_before_the_program(library: Path, tmp_path: Path) -> None:
    with booted(library, tmp_path, order(tmp_path, **all_layers(library, tmp_path))) as (process, answers, _give):
        found = frames.read(answers)
        out, err = process.communicate()
    assert found is not None
    assert found["layers"] == ["rlimits", "landlock", "seccomp"]
    assert (found["seccomp"], found["bound"]) == (2, 1)
    assert (process.returncode, out, err) == (0, b"", b""), "no exit handler ran"


@pytest.mark.parametrize(
    ("changes", "layer", "word"),
    [
        ({"rlimits": {"NOSUCH": 1}}, "rlimits", "RLIMIT_NOSUCH"),
        ({"landlock": {"read": [], "write": ["/not/there"]}}, "landlock", "No such file"),
        ({"seccomp": "00" * 8}, "seccomp", "Invalid argument"),
        ({"seccomp": "no hex"}, "seccomp", "ValueError"),
        ({"program": "no_such_program"}, "boot", "no_such_program"),
        ({"home": "/not/there"}, "boot", "/not/there"),
    ],
)
def test_a_layer_that_does_not_hold_means_that_nothing_runs(
    library: Path, tmp_path: Path, changes: dict[str, Any], layer: str, word: str
) -> None:
    with booted(library, tmp_path, order(tmp_path, **changes)) as (process, answers, _give):
        found = frames.read(answers)
        assert process.wait() == boot.REFUSED
        assert frames.read(answers) is None
    assert found is not None
    assert (found["type"], found["layer"]) == ("refused", layer)
    assert word in found["message"]


def test_a_broken_order_is_refused(library: Path, tmp_path: Path) -> None:
    with booted(library, tmp_path, b"\0\0\0\2[]") as (process, answers, _give):
        found = frames.read(answers)
        assert process.wait() == boot.REFUSED
    assert found is not None
    assert found["type"] == "refused"


def test_a_host_that_went_away_is_no_error(library: Path, tmp_path: Path) -> None:
    with booted(library, tmp_path, b"") as (process, answers, give):
        give.close()
        _, err = process.communicate()
        assert (process.returncode, frames.read(answers), err) == (0, None, b"")


def test_an_error_of_the_program_is_shown_and_ends_it(library: Path, tmp_path: Path) -> None:
    with booted(library, tmp_path, order(tmp_path, settings={"then": "raise"})) as (process, answers, _give):
        assert frames.read(answers) is not None
        _, err = process.communicate()
    assert process.returncode == 1
    assert b"LookupError: the program's own" in err
