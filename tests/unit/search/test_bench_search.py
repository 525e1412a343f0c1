"""The benchmark of deep search: its figures are correct, half of the data is refused, and a run ends in a page."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from benchmarks.search import figures, measure, run
from benchmarks.search.data import DataMissing, load
from benchmarks.search.picture import draw
from benchmarks.search.scale import synthesised

PASSAGES = [
    {"id": "1", "title": "Ed Wood (film)", "text": "Ed Wood is a 1994 film. It was directed by Tim Burton."},
    {"id": "2", "title": "Tim Burton", "text": "Tim Burton was born in Burbank. He makes films."},
    {"id": "3", "title": "Burbank", "text": "Burbank is a city in California."},
    {"id": "4", "title": "Paris", "text": "Paris is the capital of France."},
]
QUESTIONS = [
    {"question": "Where was the director of Ed Wood born?", "gold": ["1", "2"], "answer": "Burbank"},
    {"question": "Is Paris the capital of France?", "gold": ["4"], "answer": "yes"},
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    with gzip.open(folder / "2wiki.corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(one) + "\n" for one in PASSAGES)
    (folder / "2wiki.dev.jsonl").write_text("".join(json.dumps(one) + "\n" for one in QUESTIONS))
    return folder


def test_figures_by_hand() -> None:
    assert figures.recall(["a", "x", "b"], ["a", "b"], 2) == 0.5
    assert figures.percentile([3.0, 1.0, 2.0, 4.0], 0.95) == 4.0
    assert figures.percentile([float(at) for at in range(1, 101)], 0.95) == 95.0
    assert figures.auc([0.9, 0.5, 0.5, 0.1], [True, True, False, False]) == 0.875
    assert figures.auc([0.9, 0.5], [True, True]) is None
    assert figures.bins([0.1, 0.4, 0.2, 0.3], [False, True, True, True], count=2) == [
        (0.1, 0.2, 2, 0.5),
        (0.3, 0.4, 2, 1.0),
    ]
    assert figures.bins([0.5] * 4, [True, False] * 2) == [(0.5, 0.5, 4, 0.5)]  # equal scores share a bin
    low, high = figures.interval([0.0, 1.0] * 100)
    assert 0.42 < low < 0.5 < high < 0.58
    assert figures.has(["He lives in São  Paulo."], "sao paulo")
    assert not figures.has(["Parisian life."], "Paris")  # a part of a word is not the answer


def test_absent_or_incomplete_data_gets_a_clear_error(data: Path, tmp_path: Path) -> None:
    for folder, match in ((None, "not part of the repository"), (str(tmp_path / "no"), "is not a folder")):
        with pytest.raises(DataMissing, match=match):
            load(folder)
    with pytest.raises(DataMissing, match="has no question set"):
        load(str(tmp_path))
    (data / "musique.dev.jsonl").write_text("")
    with pytest.raises(DataMissing, match=r"musique\.corpus\.jsonl\.gz is missing"):
        load(str(data))
    (data / "musique.dev.jsonl").unlink()
    (data / "2wiki.dev.jsonl").write_text(json.dumps({"question": "?", "gold": ["99"]}))
    with pytest.raises(DataMissing, match="do not belong together"):
        load(str(data))
    whole = (data / "2wiki.corpus.jsonl.gz").read_bytes()
    (data / "2wiki.corpus.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataMissing, match="cannot be read"):
        load(str(data))


def test_made_passages_are_the_same_every_time(data: Path) -> None:
    sets = load(str(data))
    made = synthesised(sets, 50)
    assert made == synthesised(sets, 50)
    assert len({one["id"] for one in made}) == 50
    assert made[0]["text"] == PASSAGES[0]["text"]


def test_a_run_ends_in_a_page_and_a_picture(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    for name, path in (("CACHE", out), ("KEPT", out / "k.json"), ("PAGE", out / "S.md"), ("PLOT", out / "p.svg")):
        monkeypatch.setattr(run, name, path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(measure, "_TIMES", 2)
    monkeypatch.setattr(run, "METHODS", [one for one in run.METHODS if one.name in ("single", "round3", "untitled")])
    arguments = ["--passages", "300", "--files", "30", "--json", str(tmp_path / "f.json")]
    assert run.main([str(data), *arguments]) == 0
    found = json.loads((tmp_path / "f.json").read_text())
    row = found["2wiki"]["rows"]["round3"]
    assert (row["recall@5"], row["questions"], row["answers"], row["wrong_citations"]) == (1.0, 2, 1, 0)
    assert row["citations"] > 0
    assert (found["scale"]["passages"], found["folder"]["documents"]) == (300, 30)
    page = (out / "S.md").read_text()
    assert "Deep search, 3 rounds, titles removed" in page
    assert "HippoRAG 2 [2]" in page
    assert str(tmp_path) not in page
    ET.parse(out / "p.svg")
    assert draw(found) == (out / "p.svg").read_text()

    before = page
    assert run.main([str(data), "--methods", "single", "--only", "2wiki"]) == 0  # a trial run, not a measurement
    assert (out / "S.md").read_text() == before
    assert run.main([str(data), "--only", "nothing"]) == 2
    assert run.main([]) == 2
    assert "DATA=<folder>" in capsys.readouterr().err
