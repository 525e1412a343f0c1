"""Names under which a program's files must not be saved."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
from tests.kit.imports import parsed

import clicket
from clicket.cli.saved_names import name_objection


def imported_by_us() -> set[str]:
    """Every package that a file of clicket imports."""
    names: set[str] = set()
    for file in Path(clicket.__file__).parent.rglob("*.py"):
        for node in ast.walk(parsed(file.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder below the working directory that is not on the import path."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "kept"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "name",
    [
        "apsw.py", "apsw/__init__.py", "json.py", "sitecustomize.py", "numpy.cpython-311-x86_64-linux-gnu.so", "clicket.py",
        "clicket.toml", "deep/clicket.toml", ".clicket/clicket.db", ".git/config", "deep/.env", "start.pth",
        "evil-1.dist-info/entry_points.txt", "x.egg-info/entry_points.txt", "__pycache__/tools.cpython-311.pyc",
    ],
)  # fmt: skip
def test_a_name_that_would_be_imported_or_obeyed_is_refused_in_any_folder(out: Path, name: str) -> None:
    assert name_objection(name, out)


@pytest.mark.parametrize("name", ["result.csv", "solution.py", "deep/solution.py", "figure.png", "Makefile", "a.b.txt"])
def test_other_names_are_kept(out: Path, name: str) -> None:
    assert name_objection(name, out) == ""


def test_no_module_is_saved_where_modules_are_looked_for(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_objection("solution.py", Path())
    assert name_objection("package/solution.py", Path())
    assert name_objection("solution.csv", Path()) == ""
    monkeypatch.syspath_prepend(out / "lib")
    assert name_objection("lib/solution.py", out)
    (out / "package").mkdir()
    (out / "package" / "__init__.py").touch()
    assert name_objection("solution.py", out / "package")


def test_the_file_of_settings_may_have_another_name(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLICKET_CONFIG", str(out / "own.toml"))
    assert name_objection("own.toml", out) == "would be read as settings"
    assert name_objection("other.toml", out) == ""


def test_every_package_that_we_import_is_known(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clicket.cli.saved_names.find_spec", lambda name: None)  # as if no extra were installed
    own = {"clicket", "libc", "process_table", "tree"}  # files of clicket that run as scripts import by these names
    names = imported_by_us() - set(sys.stdlib_module_names) - own
    assert [name for name in sorted(names) if not name_objection(f"{name}.py", out)] == []
