"""The Python that programs run on, and the few clicket modules that it imports in the sandbox: compiled, without sources."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import py_compile
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from clicket.errors import UsageError

__all__ = ["SANDBOX_MODULES", "PythonRuntime", "find_python", "write_modules"]

SANDBOX_MODULES = ("boot", "frames", "landlock", "libc", "rlimits", "seccomp", "probe_program", "command_program")
"""The modules of this package that run in the sandboxed child. They import only the standard library and each other."""

_PACKAGES = ("clicket", "clicket/interpreter/sandbox", "clicket/interpreter", "clicket/interpreter/inside")
_OLDEST = (3, 11)
_TIMEOUT = 60.0
_DESCRIBE = (
    "import sys,json,importlib.util as u;"
    "print(json.dumps([sys.executable,sys.prefix,sys.base_prefix,sys.version.split()[0],u.MAGIC_NUMBER.hex()]))"
)
_COMPILE = (
    "import sys,json,py_compile as p;"
    "[p.compile(s,c,d,True,invalidation_mode=p.PycInvalidationMode.UNCHECKED_HASH) for s,c,d in json.load(sys.stdin)]"
)


_compiled: dict[PythonRuntime, dict[str, bytes]] = {}


class PythonRuntime(msgspec.Struct, frozen=True, kw_only=True):
    """A Python installation: its executable and the folders that it needs."""

    executable: str
    prefix: str
    base_prefix: str
    version: str
    magic: str

    @property
    def folders(self) -> tuple[str, ...]:
        """Its folders, outermost only: of the environment, of the base installation, and of the targets of links."""
        real = os.path.realpath(self.executable)
        found = {
            self.prefix,
            self.base_prefix,
            os.path.realpath(self.base_prefix),
            os.path.dirname(os.path.dirname(real)),
        }
        both = sorted(found - {"/"})
        return tuple(f for f in both if not any(f != other and Path(f).is_relative_to(other) for other in both))


@functools.cache
def find_python(python: str | None = None) -> PythonRuntime:
    """Describe a Python executable, by default our own; another one is started once. Raises `UsageError`."""
    if python is None or python == sys.executable:
        if not sys.executable:
            raise UsageError(
                "this process does not know its own Python executable; name one: python='/usr/bin/python3'."
            )
        executable = sys.executable
        prefix = sys.prefix
        base = sys.base_prefix
        version = sys.version.split()[0]
        magic = importlib.util.MAGIC_NUMBER.hex()
    else:
        answer = _run(python, ["-I", "-c", _DESCRIBE], b"")
        try:
            executable, prefix, base, version, magic = json.loads(answer)
        except ValueError:
            raise UsageError(
                f"{python!r} answered {answer[:200]!r} instead of describing itself; is it a Python?"
            ) from None
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST:
        raise UsageError(f"the sandbox needs Python 3.11 or newer, and {python!r} is {version}.")
    return PythonRuntime(executable=executable, prefix=prefix, base_prefix=base, version=version, magic=magic)


def write_modules(folder: Path, python: PythonRuntime) -> None:
    """Write the modules of the sandboxed child, compiled for that Python, into a new folder. Compiled once per process."""
    if python not in _compiled:
        with tempfile.TemporaryDirectory(prefix="clicket-compile-") as scratch:
            _compiled[python] = _compile(Path(scratch), python)
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)  # whatever our umask: the user of every program must be able to read them
    for name, code in _compiled[python].items():
        path = folder / name
        for parent in reversed(path.relative_to(folder).parents[:-1]):
            (folder / parent).mkdir(exist_ok=True)
            (folder / parent).chmod(0o755)
        path.write_bytes(code)
        path.chmod(0o644)


def _sources() -> dict[str, str]:
    """The path of each module in the sandbox, and its source."""
    root = Path(__file__).parents[2]
    found = dict.fromkeys((f"{package}/__init__.py" for package in _PACKAGES), "")
    files = [root / "interpreter" / "sandbox" / f"{name}.py" for name in SANDBOX_MODULES]
    files += sorted((root / "interpreter" / "inside").glob("*.py"))
    return found | {str(path.relative_to(root.parent)): path.read_text() for path in files}


def _compile(scratch: Path, python: PythonRuntime) -> dict[str, bytes]:
    jobs: list[tuple[str, str, str]] = []
    for number, (name, text) in enumerate(_sources().items()):
        source = scratch / f"{number}.py"
        source.write_text(text)
        jobs.append((str(source), str(scratch / f"{number}.pyc"), name))
    if python.magic == importlib.util.MAGIC_NUMBER.hex():
        mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
        for given, target, name in jobs:
            py_compile.compile(given, target, name, doraise=True, invalidation_mode=mode)
    else:
        _run(python.executable, ["-I", "-c", _COMPILE], json.dumps(jobs).encode())
    return {f"{name}c": Path(target).read_bytes() for _, target, name in jobs}


def _run(python: str, arguments: list[str], given: bytes) -> bytes:
    try:
        done = subprocess.run(
            [python, *arguments], input=given, capture_output=True, timeout=_TIMEOUT, check=False, cwd="/"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"the interpreter {python!r} cannot be started: {error}. Check the option python.") from None
    if done.returncode != 0:
        stderr = done.stderr.decode("utf-8", "replace").strip()[-500:]
        raise UsageError(f"the interpreter {python!r} failed: {stderr or f'exit code {done.returncode}'}.")
    return done.stdout
