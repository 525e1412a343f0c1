"""`clicket index`: its output for people and for programs, and its exit codes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.scenarios.cli_kit import Place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path, "memory://", "")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "ada.md").write_text("# Ada Lovelace\n\nAda Lovelace was born in London.\n")
    (tmp_path / "docs" / "draft.md").write_text("# Draft\n\nA zebra.\n")
    for number in range(5):
        (tmp_path / "docs" / f"{number}.png").touch()
    (tmp_path / "docs" / "\x1b[31mred.txt").write_bytes(b"\0" * 9)
    yield place
    place.close()


def test_a_folder_is_indexed_searched_and_taken_out(place: Place) -> None:
    folder = str(place.folder / "docs")
    made = place.inside("index", "docs")
    assert made.returncode == 0, made.stderr
    first, *_, last = made.stdout.splitlines()
    assert first == f"{folder}: 2 added, 0 changed, 0 unchanged, 0 removed, 6 skipped"
    assert last.startswith(".clicket/search.db: 2 documents, 2 passages, ")
    assert "skipped 5 × .png files have no text to read: 0.png, 1.png, 2.png, …" in made.stderr
    assert 'clicket search "' in made.stderr
    assert "\x1b" not in made.stderr + made.stdout
    answer = place.inside("search", "Where was Ada Lovelace born?")
    assert "London" in answer.stdout
    (place.folder / "docs" / "draft.md").unlink()
    again = place.ask("index")  # without arguments: the folders of the index
    assert {name: again["folders"][0][name] for name in ("path", "added", "changed", "unchanged", "removed")} == {
        "path": folder, "added": 0, "changed": 0, "unchanged": 1, "removed": 1,
    }  # fmt: skip
    assert {"path": "0.png", "reason": ".png files have no text to read"} in again["folders"][0]["skipped"]
    assert (again["index"], again["documents"], again["passages"], again["vectors"]) == (".clicket/search.db", 1, 1, 0)
    status = place.ask("index", "--status")
    assert [(one["path"], one["files"], one["documents"]) for one in status["folders"]] == [(folder, 1, 1)]
    assert folder in place.inside("index", "--status").stdout
    removed = place.ask("index", "--remove", "docs")
    assert (removed["removed"], removed["documents"]) == ([{"path": "docs", "documents": 1}], 0)


def test_patterns_are_kept_for_the_next_time(place: Place) -> None:
    output = place.ask("index", "docs", "--exclude", "draft*", "--index", "other/place.db")
    assert (output["index"], output["documents"]) == ("other/place.db", 1)
    assert place.ask("index", "docs", "--index", "other/place.db")["documents"] == 1
    assert (
        place.ask("index", "docs", "--only", "*.md", "--exclude", "none", "--index", "other/place.db")["documents"] == 2
    )
    settings = place.folder / "clicket.toml"
    settings.write_text('[search]\nindex = "other/place.db"\n')
    assert place.ask("index", "--status")["documents"] == 2


def test_wrong_use_says_what_to_do(place: Place) -> None:
    (place.folder / "pictures").mkdir()
    (place.folder / "text").write_text("no database")
    for arguments, code, said in (
        (("index",), 2, "clicket index FOLDER"),
        (("index", "--status"), 2, "clicket index FOLDER"),
        (("index", "nowhere"), 2, "there is no folder nowhere"),
        (("index", "docs", "--index", "text"), 2, "not a sound index"),
        (("index", "docs", "--index", "text/in.db"), 2, "--index"),
        (("index", "pictures"), 1, "nothing to search"),
        (("index", "docs/0.png"), 2, "no text to read"),
        (("index",), 1, "nothing to search"),
        (("index", "--remove"), 2, "pictures"),
        (("index", "--remove", "nowhere"), 2, "pictures"),
        (("index", "--remove", "--status"), 2, "leave it out"),
    ):
        done = place.inside(*arguments)
        assert (done.returncode, said in done.stderr) == (code, True), (arguments, done.stdout, done.stderr)
