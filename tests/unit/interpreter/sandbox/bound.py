"""Runs a few lines of Python in a child that has applied the layers under test to itself, as boot would."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

_PRELUDE = """
import sys; sys.path.insert(0, {library!r})
import json, os, signal, errno, subprocess
from clicket.interpreter.sandbox import libc, landlock, rlimits, seccomp
libc.machine(), libc._load()  # what is read from disk is read before another user's eyes

def tried(do, *arguments):
    "What it gave, or the error's number, negative."
    try:
        return do(*arguments)
    except OSError as error:
        return -error.errno

def answer(value):
    sys.stdout.write(json.dumps(value)); sys.stdout.flush()
"""


def start(library: Path, code: str, **kwargs: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs it to its end, in its own session: the code cannot affect our process group or terminal."""
    source = _PRELUDE.format(library=str(library)) + textwrap.dedent(code)
    command = [sys.executable, "-I", "-X", "utf8", "-c", source]
    return subprocess.run(
        command,
        capture_output=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        **kwargs,
    )


def run(library: Path, code: str, **kwargs: Any) -> Any:
    """The values that the code passes to `answer`."""
    done = start(library, code, **kwargs)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)
