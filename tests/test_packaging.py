"""The wheel is self-contained: built here, installed into an empty environment, used from an empty folder."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
import zipfile
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.kit.waiting import PATIENCE

pytestmark = (
    pytest.mark.first
)  # at the end, processes that take tests from another would each install the package again

ROOT = Path(__file__).resolve().parents[1]
MAX_PACKAGES = 33  # a core install, clicket included
LEFT_OUT = {"ray", "temporalio", "dbos"}  # with their own lock


def run(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` of a clean environment with the wheel and the locked versions of what its core needs, no extras.

    What it needs is copied from our own environment, which has the locked versions. pip then installs the wheel without an
    index: it refuses if a requirement is missing or has another version.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)  # our pip serves it; installing another takes long
    bin = folder / "env" / "bin"
    (packages,) = (folder / "env" / "lib").glob("python*/site-packages")
    for name in core_of(wheel):
        copy(metadata.distribution(name), packages)
    run(*pip(bin), "install", "-q", "--no-index", f"clicket @ {wheel.as_uri()}", cwd=folder)
    return bin


def core_of(wheel: Path) -> set[str]:
    """The packages that the wheel needs without extras, by what it and they say themselves."""
    waiting = [(need, "") for need in needs_of(wheel)]
    found: set[str] = set()
    seen: set[tuple[str, str]] = set()
    while waiting:
        text, extra = waiting.pop()
        need = Requirement(text)
        if need.marker is not None and not need.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(need.name)
        found.add(name)
        for part in {"", *need.extras}:
            if (name, part) not in seen:
                seen.add((name, part))
                waiting += [(each, part) for each in metadata.requires(name) or ()]
    return found


def copy(package: metadata.Distribution, to: Path) -> None:
    """The files of an installed package, with their bytecode, but without its commands."""
    for file in package.files or ():
        source = Path(str(package.locate_file(file)))
        if ".." in file.parts or file.suffix == ".pyc":
            continue
        (to / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, to / file)
        compiled = Path(cache_from_source(source))
        if file.suffix == ".py" and compiled.exists():
            (to / file).parent.joinpath("__pycache__").mkdir(exist_ok=True)
            shutil.copy2(compiled, cache_from_source(to / file))


def pip(bin: Path) -> tuple[str | Path, ...]:
    return sys.executable, "-m", "pip", "--python", bin / "python"


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def needs_of(wheel: Path) -> list[str]:
    """The wheel's requirements as its metadata lists them."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.split("/")[0] for name in names if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
    assert "clicket/py.typed" in names
    source = ROOT / "src"
    wanted = [path for path in (source / "clicket").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert {str(path.relative_to(source)) for path in wanted} == {n for n in names if n.startswith("clicket/")}
    assert {name.split("/")[0] for name in names} == {"clicket", info}
    assert any(name.startswith(f"{info}/licenses/") for name in names)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata.get_all("Provides-Extra") is not None
    assert "all" in metadata.get_all("Provides-Extra", [])
    uncapped = [need for need in needs_of(wheel) if "extra ==" not in need and "<" not in need]
    assert uncapped == []


def test_installed_command_line(installed: Path, empty: Path, clean_env: dict[str, str]) -> None:
    import clicket

    assert clicket.__version__ in run(installed / "clicket", "--version", cwd=empty, env=clean_env)
    run(installed / "clicket", "doctor", cwd=empty, env=clean_env)
    where = run(installed / "python", "-c", "import clicket; print(clicket.__file__)", cwd=empty, env=clean_env)
    assert Path(where.strip()).is_relative_to(installed.parent)


def test_installed_demo(installed: Path, empty: Path, clean_env: dict[str, str]) -> None:
    run(installed / "python", "-m", "clicket", "demo", cwd=empty, env=clean_env)


PROGRAM = """
import asyncio
from clicket.interpreter import Interpreter

async def main():
    async with Interpreter() as ci:
        await ci.run("x = 6")
        result = await ci.run("# Twice\\n\\n```python\\nx * 7\\n```\\n")
        numpy = await ci.run("import numpy")
        print(result.status, result.value, result.isolation.level, numpy.error and numpy.error.type)

asyncio.run(main())
"""


def test_installed_interpreter_needs_no_extra(installed: Path, empty: Path, clean_env: dict[str, str]) -> None:
    output = run(installed / "python", "-c", PROGRAM, cwd=empty, env=clean_env)
    assert output.split() == ["ok", "42", "full", "ModuleNotFoundError"]
    (empty / "notes.md").write_text("# Notes\n\n```python\nopen('made.txt', 'w').write('made')\n```\n")
    run(installed / "clicket", "code", "notes.md", "--out", ".", "--html", "notes.html", cwd=empty, env=clean_env)
    assert (empty / "made.txt").read_text() == "made"
    assert "<title>notes</title>" in (empty / "notes.html").read_text()


def test_installed_packages_are_few_and_agree(installed: Path, empty: Path) -> None:
    (packages,) = installed.parent.glob("lib/python*/site-packages")
    listed = [package.name for package in metadata.distributions(path=[str(packages)])]
    assert "clicket" in listed
    assert len(listed) <= MAX_PACKAGES, listed
    run(*pip(installed), "check", cwd=empty)


def test_what_needs_an_extra_says_which(installed: Path, empty: Path, clean_env: dict[str, str]) -> None:
    for command, extra in (
        (["serve"], "clicket[server]"),
        (["mcp", "tools", "http://127.0.0.1:9/mcp"], "clicket[mcp]"),
    ):
        done = subprocess.run(
            [installed / "clicket", *command],
            cwd=empty,
            env=clean_env,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert (done.returncode, extra in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


def locked(name: str) -> dict[str, str]:
    """The versions of a lock for this Python and this machine."""
    text = (ROOT / "requirements" / f"{name}.lock").read_text()
    entries = [Requirement(entry.rstrip(" \\")) for entry in re.findall(r"^[a-z0-9].*", text, re.MULTILINE)]
    return {each.name: str(each.specifier)[2:] for each in entries if each.marker is None or each.marker.evaluate()}


def test_every_extra_fits_together(wheel: Path) -> None:
    """Every requirement under `clicket[all]` accepts the locked version."""
    pins = locked("dev")
    waiting: list[tuple[str, str]] = [("clicket", "all")]
    seen: set[tuple[str, str]] = set()
    wrong: list[str] = []
    while waiting:
        name, extra = one = waiting.pop()
        if one in seen or name in LEFT_OUT:
            continue
        seen.add(one)
        if name != "clicket" and metadata.version(name) != pins.get(name):
            wrong.append(
                f"{name} {metadata.version(name)} is installed, {pins.get(name)} is locked: run scripts/setup dev"
            )
        for need in map(Requirement, needs_of(wheel) if name == "clicket" else metadata.requires(name) or ()):
            if need.marker is not None and not need.marker.evaluate({"extra": extra}):
                continue
            needed = canonicalize_name(need.name)
            if needed not in {"clicket", *LEFT_OUT} and pins.get(needed) not in need.specifier:
                wrong.append(f"{name} asks for {need}, and {pins.get(needed)} is locked")
            else:
                waiting += [(needed, part) for part in ("", *need.extras)]
    assert wrong == []
    assert {"mcp", "redis", "pypdf", "fastembed"} <= {name for name, _ in seen}


@pytest.mark.slow  # the test above asks what pip would; pip itself downloads every large package for it
def test_every_extra_fits_together_for_pip(installed: Path, wheel: Path, tmp_path: Path) -> None:
    pins = re.findall(r"^[a-z0-9].*==[^\\]*", (ROOT / "requirements" / "run.lock").read_text(), re.MULTILINE)
    (tmp_path / "constraints.txt").write_text("\n".join(pins))
    wanted = ("-c", tmp_path / "constraints.txt", f"clicket[all] @ {wheel.as_uri()}")
    assert "mcp" in run(*pip(installed), "install", "--dry-run", *wanted, cwd=tmp_path)


def test_locks_name_exact_versions_with_hashes_and_no_registry() -> None:
    locks = {path.stem: path.read_text() for path in (ROOT / "requirements").glob("*.lock")}
    assert set(locks) == {"demo", "run", "dev", "model", "answers-model", "engines"}
    for text in locks.values():
        assert "://" not in text
        entries = re.findall(r"^[a-z0-9].*", text, re.MULTILINE)
        assert all("==" in entry and entry.endswith("\\") for entry in entries)
        assert text.count("--hash=sha256:") >= len(entries)
    pins = {name: set(re.findall(r"^([a-z0-9][^ \\]*==[^ \\]*)", text, re.MULTILINE)) for name, text in locks.items()}
    assert pins["demo"] <= pins["run"] <= pins["dev"], "make demo, make bench and make test run the same versions"


def test_the_demo_installs_only_what_the_tour_needs() -> None:
    """The dependencies of clicket without an extra, and the build backend: no package that only an extra requires."""
    lock = (ROOT / "requirements" / "demo.lock").read_text()
    names = set(re.findall(r"^([a-z0-9][a-z0-9._-]*)==", lock, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own = (*project["project"]["dependencies"], *project["dependency-groups"]["build"])
    asked = {re.match(r"[a-z0-9.-]+", each)[0] for each in own}  # type: ignore[index]
    extras = {
        re.match(r"[a-z0-9.-]+", each)[0]  # type: ignore[index]
        for listed in project["project"]["optional-dependencies"].values()
        for each in listed
    }
    assert asked <= names
    assert not names & (extras - asked - {"clicket"})
    assert len(names) <= 40
    reasons = set(re.findall(r"^    #(?: via|  ) (.+)$", lock, re.MULTILINE)) - {"-c requirements/dev.lock"}
    assert all(each.split()[0] in names | {"clicket"} for each in reasons), "each is required by another"
    makefile = (ROOT / "Makefile").read_text()
    assert "\ndemo: demo-env " in makefile
    assert "sh scripts/setup demo" in makefile


class TestSetup:
    """scripts/setup in its own folder, with stubs for the commands that would change the machine."""

    @pytest.fixture
    def checkout(self, tmp_path: Path) -> Path:
        for name in ("scripts/setup", "scripts/system-packages", "pyproject.toml", "requirements/dev.lock"):
            (tmp_path / name).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
        (tmp_path / "bin").mkdir()
        (tmp_path / "table").write_text(
            "# level program package why\n"
            "run clicket-no-such-server no-such-server the store's tests\n"
            "dev clicket-no-such-tool no-such-tool the lint\n"
            "dev sh dash always there\n"
        )
        return tmp_path

    def stand_in(self, checkout: Path, name: str, body: str) -> Path:
        path = checkout / "bin" / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return path

    def setup(self, checkout: Path, level: str = "dev", **env: str) -> subprocess.CompletedProcess[str]:
        path = f"{checkout / 'bin'}:{os.environ['PATH']}"
        command = ["sh", str(checkout / "scripts" / "setup"), level]
        return subprocess.run(
            command,
            env=os.environ | {"PATH": path} | env,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def test_every_missing_package_is_named_before_anything_is_made(self, checkout: Path) -> None:
        self.stand_in(checkout, "id", "echo 1000")
        done = self.setup(checkout, CLICKET_SYSTEM_PACKAGES=str(checkout / "table"))
        assert done.returncode == 1
        assert "sudo apt-get install -y no-such-server" in done.stderr
        assert "sudo apt-get install -y no-such-tool" in done.stderr
        assert "dash" not in done.stderr
        assert not (checkout / ".venv").exists()

    def test_demo_does_not_ask_for_development_packages(self, checkout: Path) -> None:
        self.stand_in(checkout, "id", "echo 1000")
        done = self.setup(checkout, "run", CLICKET_SYSTEM_PACKAGES=str(checkout / "table"))
        assert "no-such-server" in done.stderr
        assert "no-such-tool" not in done.stderr

    def test_root_gets_the_missing_packages(self, checkout: Path) -> None:
        self.stand_in(checkout, "id", "echo 0")
        self.stand_in(checkout, "apt-get", f'echo "$@" >> {checkout}/asked')
        false = shutil.which("false") or "/bin/false"  # stops the set-up right after its system packages
        done = self.setup(checkout, CLICKET_SYSTEM_PACKAGES=str(checkout / "table"), PYTHON=false)
        assert done.returncode == 1
        assert "is not a Python 3.11 or newer" in done.stderr
        (asked,) = (checkout / "asked").read_text().splitlines()
        assert asked.endswith("no-such-server no-such-tool")

    def test_package_that_cannot_be_installed_stops_the_run(self, checkout: Path) -> None:
        self.stand_in(checkout, "id", "echo 0")
        self.stand_in(checkout, "apt-get", f'echo "$1" >> {checkout}/asked; [ "$1" = update ]')
        # A Python whose environments and installations are empty, so that nothing else fails.
        python = self.stand_in(
            checkout,
            "python-that-can",
            'case "$*" in *_base_executable*) echo "$0" ;;\n'
            '"-m venv"*) for last; do :; done; mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;; esac',
        )
        done = self.setup(checkout, CLICKET_SYSTEM_PACKAGES=str(checkout / "table"), PYTHON=str(python))
        assert done.returncode == 1
        assert "could not install: no-such-server no-such-tool" in done.stderr
        assert (checkout / "asked").read_text().split() == ["install", "update", "install"]
        assert not (checkout / ".venv" / "stamp-dev").exists()
        self.stand_in(checkout, "apt-get", "exit 0")
        assert self.setup(checkout, CLICKET_SYSTEM_PACKAGES=str(checkout / "table"), PYTHON=str(python)).returncode == 0
        assert (checkout / ".venv" / "stamp-dev").exists()

    def test_python_without_venv_is_named(self, checkout: Path) -> None:
        self.stand_in(checkout, "id", "echo 1000")
        python = self.stand_in(
            checkout,
            "crippled",
            f'case "$2" in *ensurepip*) exit 1 ;; esac\nexec {sys.executable} "$@"',
        )
        done = self.setup(checkout, PYTHON=str(python))
        assert done.returncode == 1
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        assert f"sudo apt-get install -y python{version}-venv" in done.stderr
        assert not (checkout / ".venv").exists()

    def test_root_gets_the_venv_module(self, checkout: Path) -> None:
        self.stand_in(checkout, "id", "echo 0")
        self.stand_in(checkout, "apt-get", f'echo "$@" >> {checkout}/asked')
        python = self.stand_in(
            checkout,
            "crippled",
            f'case "$2" in *ensurepip*) [ -e {checkout}/asked ] || exit 1 ;; esac\nexec {sys.executable} "$@"',
        )
        done = self.setup(checkout, "python", PYTHON=str(python))
        assert done.returncode == 0, done.stderr
        assert (checkout / "asked").read_text().split()[-1] == f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
        assert Path(done.stdout.strip()).samefile(sys.executable)

    def test_a_build_of_the_same_version_that_is_clearly_quicker_is_taken(self, checkout: Path) -> None:
        def build(name: str, loop: str) -> Path:
            """A Python whose loop takes so many microseconds."""
            body = f'case "$2" in *_base_executable*) echo "$0" ;; *timeit*) echo {loop} ;; *) exec {sys.executable} "$@" ;; esac'
            return self.stand_in(checkout, name, body)

        first, quick = build("python3", "3.11 1000"), build("quick", "3.11 800")
        newer, little, old = (
            build("newer", "3.13 500"),
            build("little", "3.11 900"),
            self.stand_in(checkout, "old", "exit 1"),
        )
        found = self.setup(checkout, "python", CLICKET_OTHER_PYTHONS=f"{newer} {little} {old} {quick}")
        assert found.stdout.strip() == str(quick)
        assert f"PYTHON={first}" in found.stderr
        for others, asked in ((f"{newer} {little} {old}", {}), (f"{quick}", {"PYTHON": str(first)})):
            found = self.setup(checkout, "python", CLICKET_OTHER_PYTHONS=others, **asked)
            assert (found.stdout.strip(), found.stderr) == (str(first), "")

    def test_the_demo_needs_no_system_package(self, checkout: Path) -> None:
        (checkout / "requirements" / "demo.lock").touch()
        (checkout / ".venv").mkdir()
        self.stand_in(checkout, "crippled", "exit 1")
        done = self.setup(
            checkout, "demo", CLICKET_SYSTEM_PACKAGES=str(checkout / "table"), PYTHON=str(checkout / "bin" / "crippled")
        )
        assert "no-such" not in done.stderr

    def test_wrong_level_is_refused(self, checkout: Path) -> None:
        done = self.setup(checkout, "everything")
        assert done.returncode == 2
        assert "usage" in done.stderr
