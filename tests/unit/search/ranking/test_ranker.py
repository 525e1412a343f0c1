"""The built-in ranker finds the documents of several hops; its order is deterministic."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.search.ranking.corpora import CHINESE, FILMS, best, index_of, searched

from clicket.model.document import Document
from clicket.search.findings import Findings, QueryResult, Round
from clicket.search.ranking import LinkRanker


@pytest.mark.parametrize("known", [True, False], ids=["collection", "engine only"])
@pytest.mark.parametrize("titles", [True, False], ids=["titles", "no titles"])
async def test_two_hops_are_found_together(known: bool, titles: bool) -> None:
    with index_of(FILMS, titles=titles) as index:
        findings = await searched(
            index, "In which town did the director of Silver Harbour grow up?", collection=index if known else None
        )
    assert best(findings, 2) == {"film", "director"}


@pytest.mark.parametrize("titles", [True, False], ids=["titles", "no titles"])
async def test_a_comparison_needs_both_and_what_both_lead_to(titles: bool) -> None:
    with index_of(FILMS, titles=titles) as index:
        findings = await searched(
            index, "Which film has the younger director, Silver Harbour or Golden Harbour?", collection=index
        )
    assert best(findings, 4) == {"film", "director", "other", "third"}


async def test_a_chain_of_three_is_followed() -> None:
    with index_of(FILMS) as index:
        question = "Which river runs through the town where the director of Silver Harbour grew up?"
        findings = await searched(index, question, collection=index)
    assert best(findings, 4) >= {"film", "director", "town"}


async def test_two_hops_in_chinese() -> None:
    with index_of(CHINESE) as index:
        findings = await searched(index, "《青石镇》的作者出生在哪个县？", collection=index)
    assert best(findings, 3) == {"书", "人", "县"}


@pytest.mark.parametrize("known", [True, False], ids=["collection", "engine only"])
@pytest.mark.parametrize(
    ("rows", "question", "later"),
    [
        (FILMS, "In which town did the director of Silver Harbour grow up?", "Silver Harbour town director"),
        (CHINESE, "《青石镇》的作者出生在哪个县？", "作者出生县"),
    ],
    ids=["English", "Chinese"],
)
@pytest.mark.parametrize("changed", [False, True], ids=["the same", "with another passage"])
def test_a_later_round_ranks_as_if_all_had_been_found_at_once(
    rows: dict[str, tuple[str, str]], question: str, later: str, known: bool, changed: bool
) -> None:
    """What a round computed is used again only where new documents do not change it."""
    documents = {key: Document(id=key, title=title, text=text) for key, (title, text) in rows.items()}
    found = [QueryResult(query=query, documents=tuple(documents)[at::2]) for at, query in enumerate((question, later))]
    rounds = tuple(Round(number=at, found=(one,)) for at, one in enumerate(found, 1))
    first = {key: documents[key] for key in found[0].documents}
    if changed:
        key, text = found[0].documents[0], " ".join(text for _, text in rows.values())
        documents[key] = Document(id=key, title=documents[key].title, text=text)
    with index_of(rows) as index:
        ranker, other = (LinkRanker(index if known else None) for _ in range(2))
        ranker.rank(Findings(question=question, rounds=rounds[:1], documents=first))
        findings = Findings(question=question, rounds=rounds, documents=documents)
        assert ranker.rank(findings) == other.rank(findings)


def test_all_documents_are_ranked_and_equal_ones_by_id() -> None:
    rows = {key: Document(id=key, text="The same text.") for key in ("b", "c", "a")}
    found = (QueryResult(query="text", documents=("b", "c", "a")),)
    findings = Findings(question="same text", rounds=(Round(number=1, found=found),), documents=rows)
    assert [key for key, _ in LinkRanker().rank(findings)] == ["a", "b", "c"]


def test_documents_far_down_a_query_are_ranked_last() -> None:
    rows = {f"{number:02}": Document(id=f"{number:02}", text=f"Harbour number {number}") for number in range(30)}
    found = (QueryResult(query="harbour", documents=tuple(rows)),)
    ranked = LinkRanker().rank(Findings(question="harbour", rounds=(Round(number=1, found=found),), documents=rows))
    assert len(ranked) == 30
    assert {key for key, _ in ranked[10:]} == set(list(rows)[10:])


def test_nothing_found_is_an_empty_ranking() -> None:
    assert list(LinkRanker().rank(Findings(question="x"))) == []


def test_documents_without_text_or_with_odd_text_are_ranked() -> None:
    rows = {
        key: Document(id=key, title=title, text=text)
        for key, title, text in [
            ("a", "", ""),
            ("b", "\ud800", "\ud800"),
            ("c", "?", "( ( ("),
            ("d", "X", "x " * 50_000),
        ]
    }
    assert len(LinkRanker().rank(Findings(question="", documents=rows))) == 4


def test_the_order_does_not_depend_on_the_hash_seed() -> None:
    program = (
        "import asyncio, json\n"
        "from tests.unit.search.ranking.corpora import FILMS, index_of, searched\n"
        "async def main():\n"
        "    with index_of(FILMS) as index:\n"
        "        q = 'Which film has the younger director, Silver Harbour or Golden Harbour?'\n"
        "        one = await searched(index, q, collection=index)\n"
        "        print(json.dumps([one.searched, one.ranked, [dict(r.analysis.components) for r in one.rounds]]))\n"
        "asyncio.run(main())\n"
    )
    root = Path(__file__).parents[4]
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join((str(root), str(root / "src")))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "77")
    }
    assert len(texts) == 1
    assert json.loads(texts.pop())[1]
