"""Fitting weights: `benchmarks/search/fit.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="fitting needs numpy")

from benchmarks.search import fit
from benchmarks.search.answers import Asked

from clicket.search import Index
from clicket.search.synthesis import answerability, sentence_selection

TOWNS = ("Ardley", "Brill", "Corby", "Dunster")
CASES = [
    *(Asked(f"When was the bridge of {town} built?", (f"built in 19{at}2",), "x") for at, town in enumerate(TOWNS)),
    *(Asked(f"Who painted the ceiling above the market of {town}?", (), "x") for town in ("Paris", "Vienna", "Lima")),
]


@pytest.fixture(scope="module")
def cases() -> dict[str, list[fit.Case]]:
    with Index.open() as index:
        index.add(
            {
                "id": town,
                "title": town,
                "text": f"{town} is a town. The bridge of {town} was built in 19{at}2. The market is on Friday. It has a mill.",
            }
            for at, town in enumerate(TOWNS)
        )
        found = fit.collect(index, CASES)
    return {"one": found, "other": found}


def test_the_weights_find_the_right_sentences(cases: dict[str, list[fit.Case]]) -> None:
    weights = fit.fit_sentences(cases)
    assert weights == fit.fit_sentences(cases)
    assert weights[0] == pytest.approx(sentence_selection.WEIGHTS[0][1])
    decision, least = fit.fit_decision(cases, weights, 0.0)
    assert fit.outcome(cases["one"], weights, decision, least).cells()[2:] == ["100.0", "0.0 of 4", "100.0 of 3"]


def test_every_set_is_left_out_once(cases: dict[str, list[fit.Case]]) -> None:
    text = fit.left_out(cases, [0.0])
    # Both fitted, the decision fitted, the package's weights.
    assert text.count("| one ") == text.count("| other ") == text.count("| all sets together ") == 3
    assert "| 0.0 of 8 | 100.0 of 6 " in text
    page = fit.section(text, [0.01, 0.02])
    assert page.startswith("### Each set left out once\n")
    assert "--refused 0.01 0.02 --page" in page
    assert text in page


def test_weights_are_written_into_the_tables(tmp_path: Path) -> None:
    module = tmp_path / "answerability.py"
    module.write_text(Path(answerability.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    fit.write(module, {"covers": 1.25, "lost": -2.0}, 3.0)
    text = module.read_text(encoding="utf-8")
    assert '("covers",  1.2)' in text
    assert '("lost",   -2.0)' in text
    assert "\nLEAST = 3.0\n" in text
    with pytest.raises(SystemExit, match="0 rows"):
        fit.write(module, {"unknown": 1.0})
