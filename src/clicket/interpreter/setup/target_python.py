"""Queries to the Python that programs run on: what is installed, which modules packages contain, and its pip.

Each query is a process of its own, isolated from our environment; the Python may be of another version than ours. All of it blocks.
"""

from __future__ import annotations

import os
import subprocess
from typing import Any

import msgspec

from clicket.errors import UsageError

__all__ = ["Completed", "pip", "query"]

_TIMEOUT = 300.0
_NO_PROXY = "http://127.0.0.1:9"
"""A proxy address where none listens: whatever a package asks for, nothing is downloaded."""

_SCRIPT = r"""
import importlib.machinery, importlib.metadata as metadata, json, os, re, sys

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

def installed(_):
    names = [name for path in sys.path if os.path.isdir(path) for name in os.listdir(path)]
    return [sys.version, sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))]

def modules(package):
    declared = (package.read_text("top_level.txt") or "").split()
    found = {plain(name_of(package)).replace("-", "_"), *declared}
    for file in package.files or ():
        first, suffix = file.parts[0], file.suffix
        if suffix in (".py", ".so", ".pyd"):
            found.add(first if len(file.parts) > 1 else first.split(".")[0])
    return {name for name in found if name.isidentifier()}

def name_of(package):
    # A folder NAME-VERSION.dist-info says it, and reading the metadata of everything that is installed takes long.
    folder = str(getattr(package, "_path", ""))
    match = re.fullmatch(r"(\w[\w.]*)-[^-]+\.dist-info", os.path.basename(folder))
    return match[1] if match and os.path.isfile(f"{folder}/METADATA") else package.metadata["Name"]

def names(given):
    wanted, folder = given
    places = [folder, *sys.path] if folder else sys.path  # not in sys.path: nothing of it may be imported here
    packages = {}
    for package in metadata.distributions(path=places):
        if name := name_of(package):
            packages.setdefault(plain(name), package)
    found, unknown, todo, seen = set(), [], [], set()
    owners = None
    for each in wanted:
        name, extras = parts(each)
        if plain(name) in packages:
            todo.append((plain(name), extras))
            continue
        if owners is None:
            owners = {m: key for key, package in packages.items() for m in modules(package)}
        if name in owners:
            todo.append((owners[name], extras))
        elif name in sys.stdlib_module_names or name.isidentifier() and importlib.machinery.PathFinder.find_spec(name, places):
            found.add(name)
        else:
            unknown.append(name)
    while todo:
        name, extras = todo.pop()
        if (name, extras) in seen or name not in packages:
            continue
        seen.add((name, extras))
        found |= modules(packages[name])
        for line in packages[name].requires or ():
            asked = set(re.findall(r"extra\s*==\s*['\"]([^'\"]+)", line))
            if not asked or asked & set(extras):
                needed, more = parts(line)
                todo.append((plain(needed), more))
    return {"names": sorted(found), "unknown": unknown, "known": sorted({*packages, *(owners or ())})}

def parts(requirement):
    match = re.match(r"\s*([\w.\-]+)\s*(?:\[([^\]]*)\])?", requirement)
    return match[1], tuple(sorted(e.strip() for e in (match[2] or "").split(",") if e.strip()))

print(json.dumps(globals()[sys.argv[1]](json.loads(sys.argv[2]))))
"""


class Completed(msgspec.Struct, frozen=True, kw_only=True):
    """A process that has ended."""

    code: int
    stdout: bytes
    stderr: str


def query(python: str, function: str, argument: Any) -> Any:
    """`installed`: what the result of an installation depends on. `names`: the modules of packages and their dependencies."""
    done = _run(python, "-I", "-c", _SCRIPT, function, msgspec.json.encode(argument).decode())
    if done.code != 0:
        raise UsageError(f"{python} could not list its packages: {done.stderr.strip()[-500:]}")
    return msgspec.json.decode(done.stdout)


def pip(python: str, *arguments: str) -> Completed:
    """Run that Python's pip, with our settings only and without network."""
    done = _run(
        python, "-I", "-m", "pip", "--isolated", "--no-input", "--disable-pip-version-check", "--no-color",
        "--no-cache-dir", "--proxy", _NO_PROXY, *arguments,
    )  # fmt: skip
    if done.code != 0 and "No module named pip" in done.stderr:
        raise UsageError(f"{python} has no pip, which installs the wheels. Run: {python} -m ensurepip")
    return done


def _run(python: str, *arguments: str) -> Completed:
    environment = {"LANG": "C.UTF-8", "PATH": "/nowhere", "PIP_CONFIG_FILE": os.devnull, "PIP_NO_INPUT": "1"}
    environment |= {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    try:
        done = subprocess.run(
            [python, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            umask=0o022,
            timeout=_TIMEOUT,
            check=False,
        )
    except OSError as error:
        raise UsageError(f"python names {python!r}, which cannot be started: {error}.") from None
    except subprocess.TimeoutExpired:
        raise UsageError(f"{python} did not answer within {_TIMEOUT:.0f} seconds.") from None
    return Completed(code=done.returncode, stdout=done.stdout, stderr=done.stderr.decode(errors="replace"))
