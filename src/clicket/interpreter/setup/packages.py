"""Packages for programs: a list of those that may be imported, and wheels of a folder installed without any network.

The list is a convenience: it tells a model early what it can count on. What a program may do is decided by the sandbox.
Wheels are unpacked, never built, so nothing of a package runs on the host.
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

from clicket.bridge import Workers
from clicket.errors import ClicketError, UsageError, did_you_mean
from clicket.interpreter.setup.target_python import ask, pip

__all__ = ["Packages", "PackagesFailed", "prepare"]

_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[\w.\-]*[A-Za-z0-9])?)\s*+(\[[\w\s,.\-]*+\]\s*+)?((?:[<>=!~]=?=?\s*+[\w.*+!\-]++\s*+(?:,\s*+)?)*+)"
)
_DIRECT = re.compile(
    rb"^Requires-Dist:[^\S\n]*+[\w.\-]++[^\S\n]*+(?:\[[^\]\n]*+\][^\S\n]*+)?@", re.MULTILINE | re.IGNORECASE
)
_LAST_WORDS = 1_500


class PackagesFailed(ClicketError):
    """Packages could not be installed from the folder of wheels; nothing of them is left behind."""

    code = "packages_failed"


class Packages(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox must be told: folders to show, and settings of the worker."""

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
    """Install what is to be installed, once for each set of requirements, and find out which names may be imported.

    `packages` are names of packages or of modules; what they depend on, and what `install` names, is allowed with them.
    None allows everything that is installed.
    """
    requirements = _checked(install, "install")
    wanted = None if packages is None else _checked(packages, "packages")
    if requirements and wheels is None:
        raise UsageError("install needs wheels, the folder that holds the wheel files of these packages.")
    if not requirements and wanted is None:
        return Packages()
    workers = Workers(1, "packages")
    try:
        return await workers.run(lambda: _prepare(wanted, requirements, wheels, python or sys.executable, cache))
    finally:
        workers.close(patience=0.0)


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
                "paths, URLs and options of pip are not taken."
            )
    return [each.strip() for each in listed]


def _names(wanted: Sequence[str], python: str, folder: Path | None) -> list[str]:
    """The top-level modules of these packages and of all that they depend on, as that Python sees them."""
    found = ask(python, "names", [wanted, None if folder is None else str(folder)])
    if found["unknown"]:
        name = found["unknown"][0]
        raise UsageError(
            f"packages names {name!r}, which {python} does not have.{did_you_mean(name, found['known'])} "
            f"Install it there, or put its wheel in a folder and pass wheels=FOLDER, install=[{name!r}]."
        )
    return list(found["names"])


def _installed(requirements: list[str], wheels: Path, python: str, cache: Path | None) -> Path | None:
    """The folder with these packages; None when that Python has all of them already."""
    wheels = wheels.expanduser().resolve()
    if not wheels.is_dir():
        raise UsageError(
            f"wheels names {str(wheels)!r}, which is no folder. Put the wheel files into a folder and name it."
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
            f"there is no folder to keep packages in: {error} Point XDG_CACHE_HOME to one that can be written."
        ) from None


def _key(requirements: list[str], wheels: Path, python: str) -> str:
    """Anything that would change the outcome changes the name of the folder."""
    stats = [(path.name, path.stat()) for path in sorted(wheels.glob("*.whl"))]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    facts = [sorted(requirements), str(wheels), files, python, ask(python, "installed", None)]
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()[:32]


def _install(requirements: list[str], wheels: Path, python: str, place: Path) -> None:
    """First ask pip which wheels are needed beside what is there, then unpack just those, elsewhere, and move them in."""
    _refuse_direct(wheels)
    offline = ("--no-index", "--find-links", str(wheels), "--only-binary=:all:")
    planned = pip(python, "install", "--dry-run", "--quiet", "--report", "-", *offline, "--", *requirements)
    if planned.code != 0:
        raise PackagesFailed(_failure(requirements, wheels, planned.words))
    files = _wheels_of(planned.output, wheels)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        unpacked = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=place.parent))
    except OSError as error:
        raise PackagesFailed(_unwritable(place.parent, error)) from None
    try:
        if files:
            done = pip(python, "install", *offline, "--no-deps", "--quiet", "--target", str(unpacked), "--", *files)
            if done.code != 0:
                raise PackagesFailed(_failure(requirements, wheels, done.words))
        unpacked.chmod(0o755)  # whoever runs the program is somebody else
        if not place.is_dir():  # another process may have been quicker
            unpacked.rename(place)
    except OSError as error:
        if not place.is_dir():
            raise PackagesFailed(_unwritable(place.parent, error)) from None
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _refuse_direct(wheels: Path) -> None:
    """A wheel may ask for a package by address, which pip would fetch, and build if it is source: nothing here does that."""
    for path in sorted(wheels.glob("*.whl")):
        try:
            with zipfile.ZipFile(path) as wheel:
                texts = [wheel.read(name) for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        except (zipfile.BadZipFile, OSError) as error:
            raise PackagesFailed(
                f"{path} is no wheel: {error}. Take it out of the folder, or fetch it again."
            ) from None
        if any(_DIRECT.search(text) for text in texts):
            raise PackagesFailed(
                f"{path} depends on a package by its address instead of its name. Take it out of the folder."
            )


def _wheels_of(report: bytes, wheels: Path) -> list[str]:
    """The files that pip's plan names."""
    try:
        planned = msgspec.json.decode(report)["install"]
        files = [Path(unquote(urlsplit(item["download_info"]["url"]).path)) for item in planned]
    except (msgspec.DecodeError, KeyError, TypeError) as error:
        raise PackagesFailed(f"pip's plan could not be read ({error}). Its version must be 22.2 or newer.") from None
    if strangers := [file for file in files if file.parent != wheels]:
        raise PackagesFailed(f"pip wants to take {strangers[0]}, which is not in {wheels}.")
    return [str(file) for file in files]


def _unwritable(folder: Path, error: OSError) -> str:
    return f"packages are kept in {folder}, which cannot be written: {error.strerror}. Point XDG_CACHE_HOME elsewhere."


def _failure(requirements: list[str], wheels: Path, words: str) -> str:
    """pip says what was wrong at the end of what it says."""
    lines = [line for line in words.strip().splitlines() if not line.startswith("[notice]")]
    return (
        f"{', '.join(requirements)} could not be installed from {wheels}: {' '.join(lines)[-_LAST_WORDS:]} "
        f"Fetch what is missing with: pip download --only-binary=:all: -d {wheels} {' '.join(requirements)}"
    )
