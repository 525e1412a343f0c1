"""Folders in an index: which files are read, what happens when files change, and that a bad file does not stop the others."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.search.extract import files

from clicket.errors import NotFound, UsageError
from clicket.search.extract import formats, json_records, pdf
from clicket.search.index import file_tables, folder_sync, source_file, splitter
from clicket.search.index.folder_sync import FolderProgress, FolderReport
from clicket.search.index.index import Index

OLD = time.time() - 3600


@pytest.fixture
def index() -> Iterator[Index]:
    with Index.open() as opened:
        yield opened


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "docs"


def put(path: Path, content: str | bytes) -> Path:
    """A file whose time is not recent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    os.utime(path, (OLD, OLD))
    return path


def lines(*rows: object) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def counts(report: FolderReport) -> tuple[int, int, int, int]:
    return report.added, report.changed, report.unchanged, report.removed


def found(index: Index, query: str) -> list[str]:
    return [one.id for one in index.find(query)]


def assert_parts(texts: dict[str, str], expected: dict[str, tuple[str, ...]]) -> None:
    """The texts are of these files, and each has the important parts."""
    assert sorted(texts) == sorted(expected)
    assert [(path, part) for path, parts in expected.items() for part in parts if part not in texts[path]] == []


def test_every_kind_of_file_is_found(index: Index, place: Path) -> None:
    put(place / "a.txt", "The zebra.")
    put(place / "docs/guide.md", "# The guide\n\nThe okapi.")
    put(place / "page.html", "<title>Page</title><p>The gnu.")
    put(place / "word.docx", files.docx())
    put(place / "paper.pdf", files.pdf("The yak", "The ibex"))
    put(place / "rows.jsonl", lines({"id": "own", "title": "Own", "text": "The lynx.", "url": "https://e.org/1"}))
    put(place / "Makefile", "all:\n\techo tapir")
    report = index.add_folder(place)
    assert (counts(report), report.skipped, report.notes) == ((7, 0, 0, 0), (), ())
    assert found(index, "zebra") == ["a.txt"]
    (guide,) = index.find("okapi")
    assert (guide.id, guide.title) == ("docs/guide.md", "The guide")
    assert (guide.url, guide.source) == (f"file://{place}/docs/guide.md", f"{place}/docs/guide.md")
    assert found(index, "gnu") == ["page.html"]
    assert found(index, "apt console") == ["word.docx"]
    assert [(one.id, one.url) for one in index.find("ibex")] == [("paper.pdf", f"file://{place}/paper.pdf#page=1")]
    assert [(one.id, one.url) for one in index.find("lynx")] == [("own", "https://e.org/1")]
    assert found(index, "tapir") == ["Makefile"]


def test_only_what_changed_is_read(index: Index, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_sync, "CLOCK_TICK", -(10**12))
    opened: list[str] = []
    open_file = source_file.open_source_file
    monkeypatch.setattr(folder_sync, "open_source_file", lambda *given: opened.append(given[1]) or open_file(*given))
    for name in ("same", "edited", "touched", "gone"):
        put(place / f"{name}.txt", f"{name}ish words")
    assert counts(index.add_folder(place)) == (4, 0, 0, 0)
    opened.clear()
    put(place / "edited.txt", "different words")
    os.utime(place / "touched.txt", (OLD - 9, OLD - 9))
    (place / "gone.txt").unlink()
    put(place / "new.txt", "new words")
    assert counts(index.add_folder(place)) == (1, 1, 2, 1)
    assert opened == ["edited.txt", "new.txt", "touched.txt"]
    assert found(index, "editedish goneish") == []
    assert (found(index, "different"), found(index, "new"), index.count) == (["edited.txt"], ["new.txt"], 4)
    opened.clear()
    assert counts(index.add_folder(place)) == (0, 0, 4, 0)
    assert opened == []


def test_the_time_of_a_file_that_is_too_new_is_not_believed(
    index: Index, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_sync, "CLOCK_TICK", 10**12)
    put(place / "a.txt", "zebra")
    index.add_folder(place)
    stat, seen = os.stat(place / "a.txt"), folder_sync.walk(str(place))
    put(place / "a.txt", "okapi")
    assert stat.st_size == os.stat(place / "a.txt").st_size
    monkeypatch.setattr(folder_sync, "walk", lambda *_, **__: seen)  # as if the file system's clock had not moved
    assert counts(index.add_folder(place)) == (0, 1, 0, 0)


def test_a_change_that_hides_its_time_is_seen(index: Index, place: Path) -> None:
    put(place / "a.txt", "zebra")
    index.add_folder(place)
    put(place / "a.txt", "okapi")  # same length and time as before
    assert counts(index.add_folder(place)) == (0, 1, 0, 0)
    assert found(index, "okapi") == ["a.txt"]


def test_what_is_left_out(index: Index, place: Path) -> None:
    for name in (".git/x.md", ".env", "node_modules/a/b.md", "x/__pycache__/a.txt", "venv/lib/site-packages/a.py"):
        put(place / name, "hidden zebra")
    for name in (
        "keep.md",
        "build/out.md",
        "deep/build/out.md",
        "draft-1.md",
        "docs/a/b.md",
        "docs/c.txt",
        "notes.log",
    ):
        put(place / name, f"zebra of {name}")
    index.add_folder(place, exclude=["/build", "draft-*", "*.log", "docs/**/b.md"])
    assert sorted(found(index, "zebra")) == ["deep/build/out.md", "docs/c.txt", "keep.md"]
    index.add_folder(place, patterns=["*.md"], exclude=["build/"])
    assert sorted(found(index, "zebra")) == ["docs/a/b.md", "draft-1.md", "keep.md"]
    index.add_folder(place, patterns=["docs", "/keep.m[a-d]"])
    assert sorted(found(index, "zebra")) == ["docs/a/b.md", "docs/c.txt", "keep.md"]
    for wrong in ("!x", "/", ""):
        with pytest.raises(UsageError, match="pattern"):
            index.add_folder(place, exclude=[wrong])
    with pytest.raises(UsageError, match=r"exclude=\['x'\]"):
        index.add_folder(place, exclude="x")


def test_nothing_stops_the_others(index: Index, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_file, "MAX_FILE", 1000)
    monkeypatch.setattr(pdf, "pypdf_installed", lambda: False)
    put(place / "good.txt", "zebra")
    put(place / "binary.txt", b"\0\1\2" * 50)
    put(place / "big.txt", "x" * 1001)
    put(place / "empty.txt", " \n")
    put(place / "picture.png", b"x")
    put(place / "broken.docx", b"PK\3\4 no")
    put(place / "a.pdf", files.pdf("x"))
    put(place / "none.jsonl", "nothing\n")
    put(place / "secret.txt", "x")
    put(place / "closed/in.txt", "okapi")
    os.mkfifo(place / "pipe.txt")
    (place / "loop").symlink_to(place)
    (place / "link.txt").symlink_to("/etc/hostname")
    with open(os.fsencode(place) + b"/caf\xe9.txt", "w") as odd:
        odd.write("gnu")
    index.add_folder(place)
    (place / "secret.txt").chmod(0)
    scandir, opening = os.scandir, os.open

    def no_scandir(path: str) -> Any:  # root may read everything, so the error is faked
        if str(path).endswith("closed/"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    def no_open(path: str, flags: int) -> int:
        if str(path).endswith("secret.txt"):
            raise PermissionError(13, "Permission denied")
        return opening(path, flags)

    monkeypatch.setattr(os, "scandir", no_scandir)
    monkeypatch.setattr(os, "open", no_open)
    report = index.add_folder(place)
    reasons = dict(report.skipped)
    expected = {
        "a.pdf": "clicket[documents]",
        "big.txt": "larger than",
        "binary.txt": "not text",
        "broken.docx": "damaged",
        "closed/": "permission denied",
        "empty.txt": "no text in it",
        "link.txt": "symbolic link",
        "loop": "symbolic link",
        "none.jsonl": "not JSON",
        "picture.png": "no text to read",
        "pipe.txt": "not a regular file",
        "secret.txt": "permission denied",
    }
    assert_parts(reasons, {path: (part,) for path, part in expected.items()})
    assert counts(report) == (0, 0, 2, 0)
    assert (found(index, "zebra"), found(index, "okapi")) == (
        ["good.txt"],
        ["closed/in.txt"],
    )  # its file may still exist
    (gnu,) = index.find("gnu")
    assert (gnu.id, gnu.url) == ("caf\\xe9.txt", f"file://{place}/caf%E9.txt")
    monkeypatch.setattr(pdf, "pypdf_installed", lambda: True)  # installed meanwhile
    assert counts(index.add_folder(place))[0] == 1


def test_a_file_that_was_read_and_is_broken_now(index: Index, place: Path) -> None:
    put(place / "a.txt", "zebra")
    index.add_folder(place)
    put(place / "a.txt", b"\0" * 100)
    assert index.add_folder(place).skipped
    assert found(index, "zebra") == []
    put(place / "a.txt", "zebra again")
    assert counts(index.add_folder(place)) == (1, 0, 0, 0)


def test_documents_of_json_lines(index: Index, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "MAX_LINE", 2000)
    rows = put(
        place / "rows.jsonl",
        "\ufeff"
        + lines({"id": 1, "title": "A", "text": "zebra"}, {"text": ["okapi", "gnu"]}, [], {"id": "1", "text": "twice"})
        + "\nnot json\n"
        + lines({"_id": "x", "contents": "half \ud83d pair"}),
    )
    put(place / "other.json", json.dumps({"data": [{"id": "1", "content": "yak"}, {"name": "no text"}]}))
    with gzip.open(place / "packed.jsonl.gz", "wt") as packed:
        packed.write(lines({"id": "1", "text": "lynx"}) + "x" * 5000)
    put(place / "settings.json", '{"colour": "ochre"}')
    report = index.add_folder(place)
    assert counts(report) == (4, 0, 0, 0)
    assert_parts(dict(report.notes), {
        "other.json": ("1 of 2", "item 2"),
        "packed.jsonl.gz": ("line 2",),
        "rows.jsonl": ("3 of 6", "line 3"),
    })  # fmt: skip
    assert [found(index, word) for word in ("yak", "lynx", "zebra", "okapi", "ochre")] == [
        ["1"],
        ["packed.jsonl.gz#1"],
        ["rows.jsonl#1"],
        ["rows.jsonl#2"],
        ["settings.json"],
    ]
    assert [one.text for one in index.find("pair")] == ["half \ufffd pair"]
    put(rows, lines({"id": "x", "text": "half pair"}, {"id": "y", "text": "ibex"}))
    assert counts(index.add_folder(place)) == (0, 1, 3, 0)
    assert (found(index, "zebra okapi twice"), found(index, "ibex"), index.count) == ([], ["y"], 5)


def test_packed_lines_that_unpack_without_end(index: Index, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "RATIO_FROM", 100_000)
    monkeypatch.setattr(json_records, "MAX_BLANK", 1000)
    line = lines({"id": "1", "text": "zebra"})
    put(place / "zeros.jsonl.gz", gzip.compress((line + " " * 90_000 + "\n" + line * 30_000).encode()))
    put(place / "blank.jsonl.gz", gzip.compress((line + "\n" * 50_000).encode()))
    put(place / "cut.jsonl.gz", gzip.compress(os.urandom(500).hex().encode())[:-30])
    report = index.add_folder(place)
    assert_parts(dict(report.notes), {"blank.jsonl.gz": ("empty",), "zeros.jsonl.gz": ("200 times",)})
    assert "damaged" in dict(report.skipped)["cut.jsonl.gz"]


def test_long_texts_are_cut_into_parts(index: Index, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitter, "MAX_PART", 4000)
    filler = ("Nothing of interest is said here. " * 40).strip()
    text = f"# Title\n\n## Install\n\n### Linux\n\n{filler}\n\n{filler}\n\n{filler}\n\n{filler} zebra\n\n## Use\n\n{filler}"
    put(place / "long.md", text)
    index.add_folder(place)
    parts = index.fetch(["long.md", "long.md#2", "long.md#3"])
    assert "".join(one.text for one in parts) == text
    assert all(one.title == "Title" for one in parts)
    (second,) = index.find("zebra")
    assert second.id == "long.md#2"
    assert "long.md#2" in found(index, "linux")  # by the headings above it, which are in the first part
    put(place / "long.md", text[:3000])
    assert counts(index.add_folder(place)) == (0, 1, 0, 0)
    assert index.count == 1


def test_several_folders(index: Index, tmp_path: Path) -> None:
    index.add([{"id": "b.txt", "text": "by hand"}])
    for name in ("one", "two"):
        put(tmp_path / name / "a.txt", f"zebra {name}")
        put(tmp_path / name / "b.txt", f"okapi {name}")
        index.add_folder(tmp_path / name)
    assert sorted(found(index, "zebra")) == ["a.txt", "two/a.txt"]
    assert sorted(found(index, "okapi")) == ["one/b.txt", "two/b.txt"]
    assert [(Path(one.path).name, one.files, one.documents) for one in index.folders()] == [
        ("one", 2, 2),
        ("two", 2, 2),
    ]
    with pytest.raises(UsageError, match=r"/one\b"):
        put(tmp_path / "one/sub/c.txt", "c")
        index.add_folder(tmp_path / "one" / "sub")
    assert index.remove_folder(tmp_path / "one") == 2
    with pytest.raises(NotFound, match=r"/two\b"):
        index.remove_folder(tmp_path / "one")
    assert found(index, "zebra") == ["two/a.txt"]
    assert counts(index.add_folder(tmp_path)) == (5, 0, 0, 0)  # takes over the files of the subfolder
    assert [one.path for one in index.folders()] == [str(tmp_path)]
    assert (sorted(found(index, "zebra")), found(index, "hand")) == (["one/a.txt", "two/a.txt"], ["b.txt"])


def test_a_single_file(index: Index, tmp_path: Path) -> None:
    put(tmp_path / "rows.jsonl", lines({"id": "1", "text": "zebra"}))
    put(tmp_path / "other.txt", "zebra")
    assert counts(index.add_folder(tmp_path / "rows.jsonl")) == (1, 0, 0, 0)
    assert (found(index, "zebra"), index.count) == (["1"], 1)
    for wrong in ("none", "x.png"):
        (tmp_path / "x.png").touch()
        with pytest.raises(UsageError, match=rf"\b{wrong}\b"):
            index.add_folder(tmp_path / wrong)


def test_a_kill_loses_only_the_last_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_sync, "MAX_DOCUMENTS", 10)
    for number in range(35):
        put(tmp_path / "docs" / f"{number:02}.txt", f"zebra {number}")
    put(tmp_path / "docs" / "rows.jsonl", lines(*({"id": f"r{one}", "text": f"okapi {one}"} for one in range(25))))
    reports: list[FolderProgress] = []

    def watch(progress: FolderProgress) -> None:
        reports.append(progress)
        if progress.path == "30.txt":
            raise KeyboardInterrupt

    path = tmp_path / "index.db"
    with Index.open(path) as index, pytest.raises(KeyboardInterrupt):
        index.add_folder(tmp_path / "docs", on_progress=watch)
    with Index.open(path) as index:
        assert index.count == 30
        report = index.add_folder(tmp_path / "docs", on_progress=reports.append)
        assert counts(report) == (6, 0, 30, 0)
        assert index.count == 60
        (last_report,) = reports[-1:]
        assert last_report.done == last_report.total
    with Index.open(path) as index:
        put(tmp_path / "docs" / "rows.jsonl", lines(*({"id": f"r{one}", "text": f"gnu {one}"} for one in range(25))))
        taken = iter(range(10**6))
        transaction = index.transaction

        def failing() -> Any:
            if next(taken) == 2:
                raise KeyboardInterrupt
            return transaction()

        monkeypatch.setattr(index, "transaction", failing)
        with pytest.raises(KeyboardInterrupt):
            index.add_folder(tmp_path / "docs")
        monkeypatch.undo()
        assert len(index.find("okapi", k=50)) == 15
        assert counts(index.add_folder(tmp_path / "docs")) == (0, 1, 35, 0)
        assert (index.count, len(index.find("gnu", k=50)), found(index, "okapi")) == (60, 25, [])


def test_a_new_reader_reads_again(index: Index, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(place / "a.txt", "zebra")
    index.add_folder(place)
    for module in (folder_sync, file_tables):
        monkeypatch.setattr(module, "READER", formats.READER + 1)
    assert counts(index.add_folder(place)) == (0, 1, 0, 0)
    assert counts(index.add_folder(place)) == (0, 0, 1, 0)


def test_no_file_of_many_that_did_not_change_is_opened(
    index: Index, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_sync, "CLOCK_TICK", -(10**12))  # a file that was changed just now is trusted, too
    for number in range(1000):
        put(place / str(number % 20) / f"{number}.txt", "x")
    index.add_folder(place)
    monkeypatch.setattr(folder_sync, "open_source_file", None)
    assert counts(index.add_folder(place)) == (0, 0, 1000, 0)
