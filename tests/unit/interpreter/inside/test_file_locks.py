"""File locks in the sandbox: a program can lock its own files, and none of its read-only ones."""

from __future__ import annotations

import pytest

from clicket.interpreter import Interpreter

PROGRAM = """
import errno, fcntl, os

def tried(file, how):
    try:
        fcntl.flock(file, how)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "locked"

first, second = open("own", "w+"), open("own", "r+")
print(tried(first, fcntl.LOCK_EX), tried(second, fcntl.LOCK_EX | fcntl.LOCK_NB), tried(second.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB))
print(tried(first, fcntl.LOCK_UN), tried(second, fcntl.LOCK_EX | fcntl.LOCK_NB))
second.close()
print(tried(first, fcntl.LOCK_SH), tried(open("own"), fcntl.LOCK_SH | fcntl.LOCK_NB))
print(tried(open(os.__file__), fcntl.LOCK_EX | fcntl.LOCK_NB), tried(first, 77))
"""


@pytest.mark.parametrize("without", [(), ("namespaces",)], ids=["full", "partial"])
async def test_locks(without: tuple[str, ...]) -> None:
    async with Interpreter(require="partial", without=without) as interpreter:
        done = await interpreter.run(PROGRAM)
        assert done.stdout.splitlines() == [
            "locked EAGAIN EAGAIN",
            "locked locked",
            "locked locked",
            "EBADF EINVAL",
        ], (done.stdout, done.error)
        done = await interpreter.run(
            "import subprocess\nsubprocess.run(['flock', '--nonblock', 'own', 'true'], capture_output=True).returncode != 0"
        )
        assert done.value == "True"
