"""Packages for programs: an allowlist of imports, and wheels of a folder installed without network.

The allowlist tells a model early what is available; it is not a security boundary, the sandbox is. Wheels are unpacked, never built, so
no code of a package runs on the host.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from clicket.errors import ClicketError, UsageError, did_you_mean
from clicket.interpreter.setup.target_python import pip, query
from clicket.system.bridge import ThreadPool

__all__ = ["Packages", "PackagesFailed", "prepare"]

_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[\w.\-]*[A-Za-z0-9])?)\s*+(\[[\w\s,.\-]*+\]\s*+)?((?>(?:[<>=!~]=?=?\s*+[\w.*+!\-]++\s*+(?:,\s*+)?)*))"
)
_DIRECT = re.compile(
    rb"^Requires-Dist:[^\S\n]*+[\w.\-]++[^\S\n]*+(?:\[[^\]\n]*+\][^\S\n]*+)?@", re.MULTILINE | re.IGNORECASE
)
_MAX_STDERR = 1_500


class PackagesFailed(ClicketError):
    """Packages could not be installed from the folder of wheels; nothing is left behind."""

    code = "packages_failed"


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """For the sandbox: folders that programs can read, and settings of the child."""

    readable: tuple[Path, ...] = ()
    settings: dict[str, Any] = {}


async def prepare(
    *,
    packages: Iterable[str] | None = None,
    wheels: str | os.PathLike[str] | None = None,
    install: Iterable[str] = (),
    python: str | None = None,
    cache: Path | None = None,
) -> Packages:
    """Install `install` from `wheels`, once for each set of requirements, and find the modules that may be imported.

    `packages` are names of packages or modules; their dependencies and `install` are allowed too. None allows everything that is
    installed. Raises `UsageError` and `PackagesFailed`.
    """
    requirements = _checked(install, "install")
    wanted = None if packages is None else _checked(packages, "packages")
    if requirements and wheels is None:
        raise UsageError("install needs wheels, the folder that holds the wheel files of these packages.")
    if not requirements and wanted is None:
        return Packages()
    thread_pool = ThreadPool(1, "packages")
    try:
        return await thread_pool.run(lambda: _prepare(wanted, requirements, wheels, python or sys.executable, cache))
    finally:
        thread_pool.close(patience=0.0)


def _prepare(
    wanted: list[str] | None,
    requirements: list[str],
    wheels: str | os.PathLike[str] | None,
    python: str,
    cache: Path | None,
) -> Packages:
    folder = _installed(requirements, Path(wheels), python, cache) if requirements and wheels is not None else None
    settings: dict[str, Any] = {} if folder is None else {"path": [str(folder)]}
    if wanted is not None:
        settings["packages"] = _names([*wanted, *requirements], python, folder)
    return Packages(readable=() if folder is None else (folder,), settings=settings)


def _checked(given: Iterable[str] | None, option: str) -> list[str]:
    if isinstance(given, str):
        raise UsageError(f"{option} must be a list of packages, not the text {given!r}. Write [{given!r}].")
    listed = list(given or ())
    for each in listed:
        if not isinstance(each, str) or not _REQUIREMENT.fullmatch(each.strip()):
            raise UsageError(
                f"{option} takes packages like 'numpy' or 'requests==2.*', not {each!r}; "
                "paths, URLs and options of pip are not allowed."
            )
    return [each.strip() for each in listed]


def _names(wanted: Sequence[str], python: str, folder: Path | None) -> list[str]:
    """The top-level modules of these packages and of their dependencies in that Python."""
    found = query(python, "names", [wanted, None if folder is None else str(folder)])
    if found["unknown"]:
        name = found["unknown"][0]
        raise UsageError(
            f"packages names {name!r}, which {python} does not have.{did_you_mean(name, found['known'])} "
            f"Install it there, or put its wheel in a folder and pass wheels=FOLDER, install=[{name!r}]."
        )
    return list(found["names"])


def _installed(requirements: list[str], wheels: Path, python: str, cache: Path | None) -> Path | None:
    """The folder with these packages; None if that Python has all of them."""
    wheels = wheels.expanduser().resolve()
    if not wheels.is_dir():
        raise UsageError(
            f"wheels names {str(wheels)!r}, which is not a folder. Put the wheel files into a folder and name it."
        )
    place = (cache or _cache()) / _key(requirements, wheels, python)
    if not place.is_dir():
        _install(requirements, wheels, python, place)
    return place if any(place.iterdir()) else None


def _cache() -> Path:
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "clicket" / "packages"
    except RuntimeError as error:
        raise PackagesFailed(
            f"there is no folder for installed packages: {error} Point XDG_CACHE_HOME to a writable one."
        ) from None


def _key(requirements: list[str], wheels: Path, python: str) -> str:
    """The folder's name: a hash of all that the result depends on."""
    stats = [(path.name, path.stat()) for path in sorted(wheels.glob("*.whl"))]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    facts = [sorted(requirements), str(wheels), files, python, query(python, "installed", None)]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]


def _install(requirements: list[str], wheels: Path, python: str, place: Path) -> None:
    """Ask pip which wheels are missing, unpack those into a temporary folder, and rename it."""
    _refuse_direct(wheels)
    offline = ("--no-index", "--find-links", str(wheels), "--only-binary=:all:")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=place.parent))
    except OSError as error:
        raise PackagesFailed(_unwritable(place.parent, error)) from None
    try:
        planned = pip(python, "install", "--dry-run", "--quiet", "--report", "-", *offline, "--", *requirements)
        if planned.code != 0:
            raise PackagesFailed(_failure(requirements, wheels, planned.stderr))
        if files := _wheels_of(planned.stdout, wheels):
            done = pip(python, "install", *offline, "--no-deps", "--quiet", "--target", str(unpacked), "--", *files)
            if done.code != 0:
                raise PackagesFailed(_failure(requirements, wheels, done.stderr))
        unpacked.chmod(0o755)  # programs run as another user
        if not place.is_dir():  # another process may have been quicker
            unpacked.rename(place)
    except OSError as error:
        if not place.is_dir():
            raise PackagesFailed(_unwritable(place.parent, error)) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _refuse_direct(wheels: Path) -> None:
    """Refuse wheels with a dependency by URL, which pip would download, and even build."""
    for path in sorted(wheels.glob("*.whl")):
        try:
            with zipfile.ZipFile(path) as wheel:
                texts = [wheel.read(name) for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        except (zipfile.BadZipFile, OSError) as error:
            raise PackagesFailed(
                f"{path} is not a wheel: {error}. Remove it from the folder, or download it again."
            ) from None
        if any(_DIRECT.search(text) for text in texts):
            raise PackagesFailed(f"{path} depends on a package by URL instead of by name. Remove it from the folder.")


def _wheels_of(report: bytes, wheels: Path) -> list[str]:
    """The files in pip's report."""
    try:
        planned = msgspec.json.decode(report)["install"]
        files = [Path(unquote(urlsplit(item["download_info"]["url"]).path)) for item in planned]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise PackagesFailed(f"pip's report could not be read ({error}). Its version must be 22.2 or newer.") from None
    if elsewhere := [file for file in files if file.parent != wheels]:
        raise PackagesFailed(f"pip would install {elsewhere[0]}, which is not in {wheels}.")
    return [str(file) for file in files]


def _unwritable(folder: Path, error: OSError) -> str:
    return f"packages are installed in {folder}, which cannot be written: {error.strerror}. Point XDG_CACHE_HOME elsewhere."


def _failure(requirements: list[str], wheels: Path, stderr: str) -> str:
    """With the end of pip's stderr, which has the cause."""
    lines = [line for line in stderr.strip().splitlines() if not line.startswith("[notice]")]
    return (
        f"{', '.join(requirements)} could not be installed from {wheels}: {' '.join(lines)[-_MAX_STDERR:]} "
        f"Download what is missing with: pip download --only-binary=:all: -d {wheels} {' '.join(requirements)}"
    )
