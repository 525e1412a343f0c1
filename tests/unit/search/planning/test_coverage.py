"""The built-in analyzer: its score and its unexplored areas."""

from __future__ import annotations

from tests.unit.search.ranking.corpora import FILMS, index_of, searched

from clicket.search.findings import Findings
from clicket.search.planning.coverage import CoverageAnalyzer

QUESTION = "In which town did the director of Silver Harbour grow up?"


async def test_the_score_rises_when_what_was_missing_is_found() -> None:
    rows = {key: FILMS[key] for key in ("film", "director", "town", "actor")}
    with index_of({"film": rows["film"]}) as poor, index_of(rows) as rich:
        little = await searched(poor, QUESTION, collection=poor)
        much = await searched(rich, QUESTION, collection=rich)
    assert 0 <= little.rounds[-1].completeness_score < much.rounds[-1].completeness_score <= 1


async def test_unexplored_areas_become_none() -> None:
    with index_of(FILMS) as index:
        findings = await searched(index, QUESTION, collection=index, rounds=9)
    assert findings.rounds[0].unexplored_areas
    assert findings.rounds[-1].unexplored_areas == ()


async def test_unexplored_names_were_not_searched() -> None:
    with index_of(FILMS) as index:
        findings = await searched(index, QUESTION, collection=index, rounds=1)
    asked = " ".join(findings.searched).casefold()
    assert all(one.casefold() not in asked for one in findings.rounds[-1].unexplored_areas)


async def test_without_documents_the_score_is_zero() -> None:
    analysis = await CoverageAnalyzer().analyze(Findings(question=QUESTION))
    assert analysis.completeness_score == 0
    assert analysis.unexplored_areas == ()


async def test_the_score_is_made_of_its_components() -> None:
    with index_of(FILMS) as index:
        findings = await searched(index, QUESTION, collection=index, rounds=2)
    analysis = findings.rounds[-1].analysis
    assert analysis is not None
    assert set(analysis.components) == {"coverage", "borne", "second", "drop", "open"}
    assert all(round(figure, 6) == figure for figure in analysis.components.values())
