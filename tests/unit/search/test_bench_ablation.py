"""Features left out in turn: `benchmarks/search/ablation.py`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="fitting needs numpy")

from benchmarks.search import ablation, model_section
from benchmarks.search.model_section import kept_section, placed, with_section

from clicket.search import Index
from clicket.search.synthesis.extractive import question_and_candidates

PASSAGES = [
    *(
        {"id": town, "title": town, "text": f"{town} is a town. Its bridge was built by {builder}. It has a mill."}
        for town, builder in (("Ardley", "Ada Holt"), ("Brill", "Carl Dean"), ("Corby", "Eve Frost"))
    ),
    *(
        {"id": builder, "title": builder, "text": f"{builder} was a builder. The builder was born in {year}."}
        for builder, year in (("Ada Holt", 1901), ("Carl Dean", 1902), ("Eve Frost", 1903))
    ),
]
QUESTIONS = [
    {"question": f"When was the builder of the bridge of {town} born?", "gold": [town, builder], "answer": year}
    for town, builder, year in (("Ardley", "Ada Holt", "1901"), ("Brill", "Carl Dean", "1902"))
]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with gzip.open(tmp_path / "towns.corpus.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(one)}\n" for one in PASSAGES)
    (tmp_path / "towns.dev.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in QUESTIONS), encoding="utf-8")
    monkeypatch.setattr(ablation, "DOCUMENTS", tmp_path / "none")
    return tmp_path


def test_every_feature_is_a_row(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ablation.main([str(data)]) == 0
    lines = capsys.readouterr().out.splitlines()
    as_it_is = next(line for line in lines if line.startswith("| as it is")).split("|")[2].strip()
    assert as_it_is.split(" / ") == ["100.0"] * 4
    page = data / "PAGE.md"
    page.write_text("# P\n", encoding="utf-8")
    monkeypatch.setattr(model_section, "PAGE", page)
    assert ablation.main([str(data), "--write"]) == 0
    assert as_it_is in page.read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        ablation.main([str(data), "--write", "--limit", "1"])
    for part, name in ablation.features():
        assert sum(line.startswith(f"| {part}: {name} ") for line in lines) == 1


@pytest.mark.parametrize("part", ["ranking", "sentences"])
def test_what_is_left_out_has_an_effect(part: str) -> None:
    """Each part has a feature without which the documents or the sentences of the questions score differently."""
    with Index.open() as index:
        index.add(PASSAGES)
        task = ablation.Task(QUESTIONS[0]["question"], (), ())
        (before,) = ablation.search(index, [task])
        changed = []
        for name in [name for its_part, name in ablation.features() if its_part == part]:
            with ablation.without(part, name):
                (after,) = ablation.search(index, [task])
                _, _, candidates = question_and_candidates(after, index)
            _, _, others = question_and_candidates(before, index)
            scores = [[(one.score, one.covers) for one in each] for each in (candidates, others)]
            if after.ranked != before.ranked or scores[0] != scores[1]:
                changed.append(name)
    assert changed


def test_what_a_feature_is_worth_is_shown_by_set() -> None:
    found: dict[str, dict[tuple[str, str], ablation.Figures]] = {
        "one": {
            ("", ""): (90.0, 30.0, 50.0, 70.0),
            ("ranking", "a"): (80.0, 30.0, 50.0, 70.0),
            ("rule", "b"): (90.0, 30.0, 50.0, 70.0),
        },
        "other": {
            ("", ""): (None, 30.0, 50.0, 70.0),
            ("ranking", "a"): (None, 30.0, 40.0, 85.0),
            ("rule", "b"): (None, 29.0, 50.0, 70.0),
        },
    }
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in ablation.section(found).splitlines() if "|" in line
    ]
    assert ["as it is", "90.0 / 30.0 / 50.0 / 70.0", "30.0 / 50.0 / 70.0", ""] in rows
    assert ["ranking: a", "-10.0 / · / · / ·", "· / -10.0 / +15.0", "1"] in rows
    assert ["rule: b", "·", "-1.0 / · / ·", "1"] in rows


def test_a_folder_without_a_set_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ablation.main([str(tmp_path)]) == 2
    assert "has no question set" in capsys.readouterr().err


def test_the_section_stays_where_it_is() -> None:
    page = "# P\n\n<!-- fit -->\nF\n<!-- end of fit -->\n\n<!-- bench-answers -->\nA\n<!-- end of bench-answers -->\n\n## Size\n"
    once = placed(page, "ablation", "T")
    assert (
        once.index("end of fit") < once.index("<!-- ablation -->\n\nT\n\n<!-- end of ablation -->") < once.index("A\n")
    )
    assert placed(once, "ablation", "T") == once
    assert "\nU\n" in placed(once, "ablation", "U")
    assert "\nT\n" not in placed(once, "ablation", "U")
    # A run of the other benchmarks keeps all sections.
    every = placed(once, "fit-ranking", "R")
    assert with_section("# P\n\n## Size\n", kept_section(every)).count("<!-- end of") == 4
