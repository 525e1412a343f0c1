"""Files beneath one folder: links that come in between, and writers that come in between."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from clicket.system.folder import MISSING, FileMissing, FileRefused, Folder, digest_of

MOST = 1_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "sub").mkdir(parents=True)
    (tmp_path / "root" / "sub" / "a.txt").write_text("inside")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "a.txt").write_text("outside")
    return tmp_path / "root"


def exchanged(monkeypatch: pytest.MonkeyPatch, root: Path, before: str) -> None:
    """Before the n-th part of a path is opened, `sub` becomes a link that leads out."""
    real = os.open

    def opened(path: Any, flags: int, *given: Any, **more: Any) -> int:
        if path == before and not (root / "sub").is_symlink():
            (root / "sub").rename(root / "old")
            (root / "sub").symlink_to(root.parent / "outside")
        return real(path, flags, *given, **more)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "supports_dir_fd", {opened, *os.supports_dir_fd})


def test_a_folder_that_becomes_a_link_before_it_is_opened_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(root)
    exchanged(monkeypatch, root, "sub")
    with pytest.raises(FileRefused, match="links are not followed"):
        folder.read(("sub", "a.txt"), MOST)
    with pytest.raises(FileRefused, match="links are not followed"):
        folder.prepare(("sub", "a.txt"), b"x", "mark")
    with pytest.raises(FileRefused):
        folder.listed(("sub",))
    assert (root.parent / "outside" / "a.txt").read_text() == "outside"


def test_a_folder_that_becomes_a_link_after_it_was_opened_does_not_lead_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(root)
    folder.prepare(("sub", "a.txt"), b"new", "mark")
    exchanged(monkeypatch, root, "a.txt")
    assert folder.commit(("sub", "a.txt"), "mark", digest_of(b"inside"), MOST) is None
    assert (root / "old" / "a.txt").read_text() == "new"
    assert (root.parent / "outside" / "a.txt").read_text() == "outside"
    assert sorted(each.name for each in (root.parent / "outside").iterdir()) == ["a.txt"]


def test_a_commit_finds_what_another_writer_has_done(root: Path) -> None:
    folder, parts = Folder(root), ("sub", "a.txt")
    folder.prepare(parts, b"mine", "mark")
    (root / "sub" / "a.txt").write_text("theirs")
    assert folder.commit(parts, "mark", digest_of(b"inside"), MOST) == digest_of(b"theirs")
    (root / "sub" / "a.txt").unlink()
    assert folder.commit(parts, "mark", digest_of(b"inside"), MOST) == MISSING
    (root / "sub" / "a.txt").write_text("there")
    assert folder.commit(parts, "mark", MISSING, MOST) == digest_of(b"there"), (
        "a new file does not replace one that came meanwhile"
    )
    assert folder.commit(parts, "mark", digest_of(b"there"), MOST) is None
    assert (root / "sub" / "a.txt").read_text() == "mine"
    assert [each.name for each in (root / "sub").iterdir()] == ["a.txt"]


def test_a_file_that_another_writer_has_replaced_is_locked_anew(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lock of a file that is not in its place any more protects nothing."""
    import fcntl

    folder, parts = Folder(root), ("sub", "a.txt")
    folder.prepare(parts, b"mine", "mark")
    real, waited = fcntl.flock, []

    def flock(fd: int, how: int) -> None:
        if not waited:  # another writer commits while this one waits for the lock
            waited.append(fd)
            other = root / "sub" / "other"
            other.write_text("theirs")
            other.rename(root / "sub" / "a.txt")
        real(fd, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    assert folder.commit(parts, "mark", digest_of(b"inside"), MOST) == digest_of(b"theirs")


def test_a_link_or_a_hard_link_is_replaced_and_not_written_through(root: Path) -> None:
    folder = Folder(root)
    os.link(root.parent / "outside" / "a.txt", root / "hard.txt")
    folder.prepare(("hard.txt",), b"new", "mark")
    assert folder.commit(("hard.txt",), "mark", digest_of(b"outside"), MOST) is None
    (root / "soft.txt").symlink_to(root.parent / "outside" / "a.txt")
    folder.prepare(("soft.txt",), b"new", "mark")
    with pytest.raises(FileRefused, match="is a link"):
        folder.commit(("soft.txt",), "mark", digest_of(b"outside"), MOST)
    with pytest.raises(FileRefused, match="is a link"):
        folder.commit(("soft.txt",), "mark", MISSING, MOST)
    folder.discard(("soft.txt",), "mark")
    assert (root.parent / "outside" / "a.txt").read_text() == "outside"
    assert sorted(each.path for each in folder.listed(())) == ["hard.txt", "soft.txt", "sub"]


def test_what_is_being_written_is_hidden_and_cannot_be_named(root: Path) -> None:
    folder = Folder(root)
    folder.prepare(("made.txt",), b"x", "mark")
    assert [each.path for each in folder.listed(())] == ["sub"]
    (left,) = [each.name for each in root.iterdir() if each.name != "sub"]
    with pytest.raises(FileRefused, match="too long or reserved"):
        folder.parts(left)
    folder.prepare(("made.txt",), b"y", "mark")
    folder.discard(("made.txt",), "mark")
    assert [each.name for each in root.iterdir()] == ["sub"]


def test_a_root_that_is_gone_is_no_missing_file(root: Path) -> None:
    folder = Folder(root)
    root.rename(root.parent / "away")
    with pytest.raises(FileNotFoundError):
        folder.digest(("sub", "a.txt"), MOST)
    assert not folder.is_there
    (root.parent / "away").rename(root)
    assert folder.digest(("sub", "gone"), MOST) == folder.digest(("gone", "gone"), MOST) == MISSING
    with pytest.raises(FileMissing):
        folder.read(("gone",), MOST)
