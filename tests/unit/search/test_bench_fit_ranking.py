"""Fitting the weights of the ranking: `benchmarks/search/fit_ranking.py`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="fitting needs numpy")

from benchmarks.search import fit_ranking

PEOPLE = {
    "hotpotqa": (("Ardley", "Ada Holt"), ("Brill", "Carl Dean"), ("Corby", "Eve Frost"), ("Dunster", "Guy Hale")),
    "musique": (("Elmley", "Ivy Jones"), ("Frome", "Ken Lowe"), ("Gosport", "Mia North"), ("Hythe", "Otto Pryce")),
    "2wiki": (("Ilkley", "Quin Rowe"), ("Jarrow", "Sue Tait"), ("Kirkby", "Una Vance"), ("Louth", "Will Yorke")),
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name, pairs in PEOPLE.items():
        passages = [
            *({"id": town, "title": town, "text": f"{town} is a town with a mill by {who}."} for town, who in pairs),
            *({"id": who, "title": who, "text": f"{who} was a builder, born on a Friday."} for _, who in pairs),
            *({"id": f"mill {at}", "title": "", "text": f"Mill {at} is a mill that was built."} for at in range(9)),
        ]
        questions = [
            {"question": f"When was the builder of the mill of {town} born?", "gold": [town, who], "answer": "Friday"}
            for town, who in pairs
        ]
        with gzip.open(tmp_path / f"{name}.corpus.jsonl.gz", "wt", encoding="utf-8") as file:
            file.writelines(f"{json.dumps(one)}\n" for one in passages)
        text = "".join(f"{json.dumps(one)}\n" for one in questions)
        (tmp_path / f"{name}.dev.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def test_weights_of_two_sets_find_the_documents_of_the_third(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit_ranking.main([str(data), "--show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if line.startswith("| fitted to the other two sets")).count("100.0") == 3
    anchor = next(line for line in lines if line.startswith("| anchor")).split("|")
    assert float(anchor[2]) > 0  # the question names the first document


def test_a_folder_without_a_set_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fit_ranking.main([str(tmp_path)]) == 2
    assert "has no question set" in capsys.readouterr().err
