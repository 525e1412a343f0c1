"""The built-in planner: queries of the first round and of later ones."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.search.index.test_vectors import Meanings
from tests.unit.search.ranking.corpora import CHINESE, FILMS, index_of, searched

from clicket.model.document import Document
from clicket.model.text.terms import terms
from clicket.search import deep_search
from clicket.search.findings import Findings, QueryResult, Round
from clicket.search.planning import BridgePlanner
from clicket.search.planning.bridges import BridgeFinder

QUESTION = "In which town did the director of Silver Harbour grow up?"


async def test_the_first_round_asks_the_question_and_its_names() -> None:
    with index_of(FILMS) as index:
        assert tuple(await BridgePlanner(index).plan(Findings(question=QUESTION))) == (QUESTION, "Silver Harbour")
    assert tuple(await BridgePlanner().plan(Findings(question=QUESTION))) == (QUESTION, "Silver Harbour")


async def test_a_title_in_small_letters_is_known_by_the_collection() -> None:
    with index_of(FILMS) as index:
        planned = await BridgePlanner(index).plan(Findings(question="who directed silver harbour and when"))
    assert "silver harbour" in planned


def found(question: str, key: str, rows: dict[str, tuple[str, str]]) -> Findings:
    """A first round that found one of the documents."""
    return Findings(
        question=question,
        rounds=(Round(number=1, found=(QueryResult(query=question, documents=(key,)),)),),
        documents={key: Document(id=key, title=rows[key][0], text=rows[key][1])},
        ranked=((key, 1.0),),
        searched=(question,),
    )


async def test_later_rounds_ask_for_names_with_what_is_open() -> None:
    with index_of(FILMS) as index:
        planned = await BridgePlanner(index).plan(found(QUESTION, "film", FILMS))
    asked = next(one for one in planned if one.startswith("Ilse Brandt"))
    assert "town" in asked
    assert "Silver" not in asked


async def test_no_query_is_sent_twice_and_at_most_five_a_round() -> None:
    with index_of(FILMS) as index:
        findings = await searched(index, QUESTION, collection=index, rounds=9)
    keys = [frozenset(terms(one)) for one in findings.searched]
    assert len(set(keys)) == len(keys)
    assert all(len(one.queries) <= 5 for one in findings.rounds)


async def test_a_plan_with_nothing_new_is_empty() -> None:
    with index_of({"film": ("Silver Harbour", "Silver Harbour is a film.")}) as index:
        findings = await searched(index, "What is Silver Harbour?", collection=index, rounds=5)
        assert not await BridgePlanner(index).plan(findings)
    assert len(findings.rounds) == 1


async def test_gaps_come_first() -> None:
    gaps = ("childhood of the director", "Tom Reed")
    findings = msgspec.structs.replace(found(QUESTION, "film", FILMS), gaps=gaps)
    planned = await BridgePlanner().plan(findings)
    assert planned[0] == "childhood of the director"
    assert planned[1].startswith("Tom Reed")
    again = msgspec.structs.replace(findings, searched=(QUESTION, "director childhood"))
    assert "childhood of the director" not in await BridgePlanner().plan(again)


async def test_names_in_a_chinese_question_are_found_without_marks() -> None:
    with index_of(CHINESE) as index:
        planned = await BridgePlanner(index).plan(Findings(question="青石镇的作者林望舒出生在哪里"))
    assert {"青石镇", "林望舒"} <= set(planned)


async def test_later_rounds_ask_in_chinese_for_names_with_what_is_open() -> None:
    with index_of(CHINESE) as index:
        planned = await BridgePlanner(index).plan(found("《青石镇》的作者的出生地是哪里？", "书", CHINESE))
    assert "林望舒 出生地" in planned


async def test_a_name_that_promises_much_less_than_the_best_one_is_not_asked_for() -> None:
    with index_of(FILMS) as index:
        findings = await searched(index, QUESTION, collection=index, rounds=1)
        finder = BridgeFinder(index)
        best, *_, worst = finder.bridges(findings)
        planned = await BridgePlanner(index, finder=finder).plan(findings)
    assert planned[0].startswith(best.name)
    assert worst.score < 0.6 * best.score
    assert not [one for one in planned if worst.name in one]


async def test_a_round_over_a_collection_has_three_queries_at_most_and_five_elsewhere() -> None:
    names = ("Anna Berg", "Carl Dahl", "Eva Falk", "Gina Holm", "Ivar Juhl", "Kari Lund", "Mona Nygaard")
    rows = {"film": ("Silver Harbour", f"Silver Harbour is a film with {', '.join(names[:-1])} and {names[-1]}.")}
    rows |= {name: (name, f"{name} is an actor.") for name in names}
    findings = found("Which actors are in Silver Harbour?", "film", rows)
    with index_of(rows) as index:
        assert len(await BridgePlanner(index).plan(findings)) == 3
        index.embedder = Meanings()  # then each query is embedded, and more of them are worth it
        assert len(await BridgePlanner(index).plan(findings)) == 5
    assert len(await BridgePlanner().plan(findings)) == 5


async def test_planner_and_analyzer_of_a_search_look_up_the_names_of_the_question_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with index_of(FILMS) as index:
        asked: list[str] = []
        look_up = index.named
        monkeypatch.setattr(index, "named", lambda names: asked.extend(names) or look_up(names))
        result = await deep_search(QUESTION, engine=index)
    assert len(result.rounds) > 1
    assert asked.count("silver harbour") == 1
