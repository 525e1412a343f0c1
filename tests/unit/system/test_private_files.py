"""Only the user may read clicket's files, from their creation: no file is created open and closed later."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clicket import tool
from clicket.runtime.runtime import Runtime
from clicket.search import Index
from clicket.search.run.checkpoints import FileCheckpoints
from clicket.system.private_files import make_folder


@pytest.fixture(autouse=True)
def generous(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No umask helps, and a mode that is set later does not count."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("the mode is set after the file was made")

    monkeypatch.setattr(os, "chmod", refuse)
    monkeypatch.setattr(os, "fchmod", refuse)
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """What other users may do with the files in a folder, by name; empty if nothing."""
    found = {str(path.relative_to(folder)): path.stat().st_mode for path in folder.rglob("*")}
    assert found
    return {name: stat.filemode(mode) for name, mode in found.items() if mode & 0o077}


@tool
async def long() -> str:
    """More than a journal holds."""
    return "x" * 3_000_000


async def test_a_store_and_its_artifacts(tmp_path: Path) -> None:
    async with Runtime([long], store=f"sqlite:///{tmp_path}/deep/er/calls.db") as runtime:
        assert (await runtime.call("long")).artifact
        assert modes(tmp_path) == {}
        names = {path.name for path in (tmp_path / "deep" / "er").iterdir()}
        assert names == {"calls.db", "calls.db-wal", "calls.db-shm", "calls.db.artifacts"}


async def test_an_index_and_the_steps_of_a_search(tmp_path: Path) -> None:
    index = Index.open(str(tmp_path / "index.db"))
    index.add([{"id": "a", "text": "some text"}])
    await FileCheckpoints(tmp_path / "steps" / "of").save("key", b"what was found")
    assert modes(tmp_path) == {}
    index.close()


def test_a_file_that_is_there_keeps_its_mode(tmp_path: Path) -> None:
    shared = tmp_path / "shared.db"
    os.close(os.open(shared, os.O_CREAT, 0o660))
    Index.open(str(shared)).close()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o660


def test_folders_are_made_once_and_a_file_is_none(tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    assert make_folder(deep) == [tmp_path / "a", deep]
    assert make_folder(deep) == []
    (deep / "file").touch()
    with pytest.raises(OSError):
        make_folder(deep / "file")
    with pytest.raises(OSError):
        make_folder(deep / "file" / "below")


async def test_version_control_leaves_our_folder_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "--quiet"], check=True)
    async with Runtime(settings=None):
        listed = subprocess.run(["git", "status", "--porcelain", "-uall"], check=True, capture_output=True, text=True)
        assert (tmp_path / ".clicket" / "clicket.db").exists()
        assert listed.stdout == ""
    (tmp_path / ".clicket" / ".gitignore").write_text("mine\n")
    make_folder(tmp_path / ".clicket")
    assert (tmp_path / ".clicket" / ".gitignore").read_text() == "mine\n"
