"""Packages for programs: which may be imported, and wheels installed from a folder, without network and without running
their code."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from tests.kit.waiting import PATIENCE

from clicket.errors import UsageError
from clicket.interpreter.inside import import_allowlist as allowed
from clicket.interpreter.setup.packages import Packages, PackagesFailed, prepare
from clicket.interpreter.setup.target_python import query

IMPORTS = """
import runpy, sys
allowed, home, names, path, code = sys.argv[1:]
install = runpy.run_path(allowed)["install"]
sys.path[:0] = [home] + ([path] if path else [])
if names != "*":
    install(names.split(), home)
exec(code)
"""


def wheel(folder: Path, name: str, version: str = "1.0", *, requires: tuple[str, ...] = (), code: str = "") -> Path:
    """The smallest wheel that pip accepts."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {each}\n" for each in requires)
    texts = {
        f"{name}/__init__.py": code or f"version = {version!r}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*texts, f"{info}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        for inner, text in {**texts, f"{info}/RECORD": record}.items():
            file.writestr(inner, text)
    return path


def imported(prepared: Packages, home: Path, code: str) -> str:
    """The output of a program that may import the prepared packages; the last line of its error if it fails."""
    names, path = prepared.settings.get("packages", ["*"]), prepared.settings.get("path", [""])
    done = subprocess.run(
        [sys.executable, "-I", "-c", IMPORTS, allowed.__file__, str(home), " ".join(names), path[0], code],
        capture_output=True, text=True, check=False, timeout=PATIENCE,
    )  # fmt: skip
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


async def test_no_packages_requested_installs_nothing() -> None:
    assert await prepare() == Packages()


async def test_listed_packages_their_dependencies_the_standard_library_and_own_files_can_be_imported(
    tmp_path: Path,
) -> None:
    prepared = await prepare(packages=["typer"])
    (tmp_path / "mine.py").write_text("x = 1\n")
    code = "import typer, rich, sysconfig, sqlite3, mine; sysconfig.get_config_vars(); print('yes')"
    assert imported(prepared, tmp_path, code) == "yes"


@pytest.mark.parametrize("name", ["msgspec", "clicket"])
async def test_other_packages_are_refused_with_the_list(tmp_path: Path, name: str) -> None:
    prepared = await prepare(packages=["typer"])
    refused = imported(prepared, tmp_path, f"import {name}")
    assert refused.startswith(f"ModuleNotFoundError: package '{name}' may not be imported here")
    assert "typer" in refused


async def test_what_is_not_there_at_all_is_an_ordinary_error(tmp_path: Path) -> None:
    prepared = await prepare(packages=[])
    assert imported(prepared, tmp_path, "import no_such_thing") == (
        "ModuleNotFoundError: No module named 'no_such_thing'"
    )
    assert imported(prepared, tmp_path, "import rich").endswith("only the standard library is allowed")


async def test_modules_stand_for_their_packages() -> None:
    prepared = await prepare(packages=["markdown_it", "jsonschema_rs"])
    assert {"markdown_it", "mdurl", "jsonschema_rs"} <= set(prepared.settings["packages"])


async def test_a_package_that_is_not_there_is_named_with_its_neighbours() -> None:
    with pytest.raises(UsageError, match=r"packages names 'msgspek'.*Did you mean 'msgspec'.*wheels=FOLDER"):
        await prepare(packages=["msgspek"])


def test_what_an_uninstallation_left_is_no_package(tmp_path: Path) -> None:
    (tmp_path / "gone-1.0.dist-info").mkdir()
    (tmp_path / "there-1.0.dist-info").mkdir()
    (tmp_path / "there-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: there\nVersion: 1.0\n")
    found = query(sys.executable, "names", [["there", "gone"], str(tmp_path)])
    assert (found["names"], found["unknown"]) == (["there"], ["gone"])


@pytest.mark.parametrize(
    "text", ["-r file", "../x.whl", "a @ https://host/a.whl", "git+https://host/a", "", "a; x", "a b"]
)
async def test_only_names_and_versions_are_taken(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="install takes packages like"):
        await prepare(install=[text], wheels=tmp_path)


async def test_wrong_use_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="install needs wheels"):
        await prepare(install=["a"])
    with pytest.raises(UsageError, match="not a folder"):
        await prepare(install=["a"], wheels=tmp_path / "none")
    with pytest.raises(UsageError, match="must be a list"):
        await prepare(packages="numpy")
    with pytest.raises(UsageError, match="cannot be started"):
        await prepare(packages=["a"], python=str(tmp_path / "python"))


async def test_a_python_without_pip_gets_instructions(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "first")
    venv.create(tmp_path / "bare", with_pip=False, symlinks=True)
    with pytest.raises(UsageError, match=r"has no pip, .*bin/python -m ensurepip"):
        await prepare(install=["first"], wheels=tmp_path / "wheels", python=str(tmp_path / "bare" / "bin" / "python"))


async def test_wheels_are_installed_once_with_what_they_need_beside_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    wheel(wheels, "first", requires=("second>=2", "msgspec", "absent; extra == 'more'"), code="import second, msgspec")
    wheel(wheels, "second", "1.5")
    wheel(wheels, "second", "2.5")
    prepared = await prepare(install=["first==1.*"], packages=[], wheels=wheels, cache=cache)
    (folder,) = prepared.readable
    assert prepared.settings["path"] == [str(folder)]
    assert {"first", "second", "msgspec"} <= set(prepared.settings["packages"])
    assert not (folder / "msgspec").exists()  # it is installed already
    assert imported(prepared, tmp_path, "import first, second; print(second.version)") == "2.5"
    assert folder.stat().st_mode & 0o777 == 0o755
    made_at = folder.stat().st_mtime_ns

    assert await prepare(install=["first==1.*"], packages=[], wheels=wheels, cache=cache) == prepared
    assert folder.stat().st_mtime_ns == made_at
    assert list(cache.iterdir()) == [folder]

    # The host's own settings of pip and Python do not matter.
    wheel(wheels, "second", "2.6")
    monkeypatch.setenv("PIP_TARGET", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("PIP_REQUIRE_HASHES", "1")
    monkeypatch.setenv("PYTHONPATH", os.devnull)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    renewed = await prepare(install=["first==1.*"], wheels=wheels)
    assert renewed.readable[0].parent == tmp_path / "home" / "clicket" / "packages"
    assert not (tmp_path / "elsewhere").exists()
    assert imported(renewed, tmp_path, "import second; print(second.version)") == "2.6"


async def test_a_missing_package_gives_pips_error_and_leaves_nothing(tmp_path: Path) -> None:
    wheels, cache = tmp_path / "wheels", tmp_path / "cache"
    wheel(wheels, "first", requires=("nowhere-to-be-found",))
    with pytest.raises(PackagesFailed, match=r"nowhere-to-be-found.*pip download --only-binary"):
        await prepare(install=["first"], wheels=wheels, cache=cache)
    assert not cache.exists() or not list(cache.iterdir())


async def test_source_is_never_built_nor_fetched(tmp_path: Path) -> None:
    """Neither a source archive in the folder nor one that a wheel references is built."""
    wheels, cache, trace = tmp_path / "wheels", tmp_path / "cache", tmp_path / "ran"
    wheels.mkdir()
    archive = wheels / "evil-1.0.zip"
    with zipfile.ZipFile(archive, "w") as file:  # it contains its own build backend, so that nothing is missing
        build = '[build-system]\nrequires = []\nbuild-backend = "builds"\nbackend-path = ["."]\n'
        file.writestr("evil-1.0/pyproject.toml", build)
        file.writestr("evil-1.0/builds.py", f"open({str(trace)!r}, 'w')\n")
    with pytest.raises(PackagesFailed, match="evil"):
        await prepare(install=["evil"], wheels=wheels, cache=cache)
    wheel(wheels, "bait", requires=(f"evil @ {archive.as_uri()}",))
    with pytest.raises(PackagesFailed, match="by URL"):
        await prepare(install=["bait"], wheels=wheels, cache=cache)
    assert not trace.exists()


async def test_a_broken_wheel_is_named(tmp_path: Path) -> None:
    (tmp_path / "broken-1.0-py3-none-any.whl").write_bytes(b"no zip")
    with pytest.raises(PackagesFailed, match=r"broken-1\.0-py3-none-any\.whl"):
        await prepare(install=["broken"], wheels=tmp_path, cache=tmp_path / "cache")


async def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "first")
    (tmp_path / "file").touch()
    with pytest.raises(PackagesFailed, match=r"cannot be written.*XDG_CACHE_HOME"):
        await prepare(install=["first"], wheels=tmp_path / "wheels", cache=tmp_path / "file" / "cache")


async def test_a_user_without_a_home_learns_where_packages_can_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "first")
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    with pytest.raises(PackagesFailed, match="XDG_CACHE_HOME"):
        await prepare(install=["first"], wheels=tmp_path / "wheels")
