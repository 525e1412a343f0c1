"""An index compared with a dictionary: after any additions, replacements and removals both hold the same."""

from __future__ import annotations

from collections import Counter
from math import log

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clicket.model.text.terms import terms
from clicket.search.index.index import Index
from clicket.search.index.postings import K1, B

WORDS = ["zebra", "okapi", "lemur", "绍兴", "common", "usual", "word", "café", "Straße"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
IDS = st.sampled_from(["a", "b", "c", "d", "e", "f"])


class Twin(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = Index.open()
        self.texts: dict[str, str] = {}
        self.turn = 0

    def teardown(self) -> None:
        self.index.close()

    @rule(rows=st.lists(st.tuples(IDS, TEXTS), max_size=5))
    def add(self, rows: list[tuple[str, str]]) -> None:
        self.turn += 1
        given = [{"id": key, "text": f"{text} rare{key}x{self.turn}"} for key, text in rows]
        self.index.add(given)
        self.texts.update({row["id"]: row["text"] for row in given})

    @rule(rows=st.lists(st.tuples(IDS, TEXTS), min_size=1, max_size=3))
    def fail(self, rows: list[tuple[str, str]]) -> None:
        try:
            self.index.add([*({"id": key, "text": text} for key, text in rows), {}])
        except ValueError:
            return
        raise AssertionError("a row without an id was taken")

    @rule(ids=st.lists(IDS, max_size=3))
    def remove(self, ids: list[str]) -> None:
        assert self.index.remove(ids) == len({key for key in ids if key in self.texts})
        for key in ids:
            self.texts.pop(key, None)

    @rule(query=TEXTS, k=st.integers(1, 4))
    def search(self, query: str, k: int) -> None:
        held = {key: set(terms(text)) for key, text in self.texts.items()}
        wanted = set(terms(query))
        found = self.index.find(query, k=k)
        assert len(found) == min(k, sum(bool(wanted & own) for own in held.values()))
        assert all(wanted & held[one.id] and one.text == self.texts[one.id] for one in found)
        assert [(-one.score, one.id) for one in found] == sorted((-one.score, one.id) for one in found)

    @invariant()
    def knows_the_same(self) -> None:
        assert self.index.count == len(self.texts)
        held = [set(terms(text)) for text in self.texts.values()]
        every = terms(" ".join(WORDS))
        assert list(self.index.frequencies(every)) == [sum(term in own for own in held) for term in every]
        for key, text in self.texts.items():
            assert [one.id for one in self.index.find(text.split()[-1])] == [key]


TestTwin = Twin.TestCase
TestTwin.settings = settings(max_examples=max(settings().max_examples // 4, 1))


def test_the_best_are_the_same_as_by_scoring_everything() -> None:
    """A pruned document could not have been among the best. Some lists are so long that they are read as bits; then documents leave
    and come in the middle of them."""
    rows = [
        {
            "id": f"{one:04}",
            "text": " ".join(f"w{one * one * step % (2**step)}" for step in range(2, 14))
            + " all" * (one % 5)
            + " many" * (one % 9 if one % 3 else 0)
            + " long" * (one % 11),
        }
        for one in range(7_500)
    ]
    with Index.open() as index:
        index.add(rows)
        _compare(index, {row["id"]: terms(row["text"]) for row in rows})
        gone = {row["id"] for row in rows[1_000:7_000:5]}
        index.remove(gone)
        held = {row["id"]: row for row in rows if row["id"] not in gone}
        held["new"] = {"id": "new", "text": "all many many long"}
        index.add([held["new"]])
        _compare(index, {key: terms(row["text"]) for key, row in held.items()})


def _compare(index: Index, held: dict[str, list[str]]) -> None:
    average = sum(map(len, held.values())) / len(held)
    counts = {key: Counter(own) for key, own in held.items()}
    holders = Counter(term for own in counts.values() for term in own)
    for query in (
        "w1 w4 w9 w100",
        "all w0 w16 w1024",
        "w3 all",
        "w36 w36 all w0 w1 w4",
        "many",
        "all many long",
        "w0 long",
        "w9 long many",
        "w0 w4 w16" + " many" * 3 + " long" * 7,
    ):
        expected = []
        for key, own in held.items():
            score = 0.0
            for term in terms(query):
                if tf := counts[key][term]:
                    n = holders[term]
                    idf = log(1 + (len(held) - n + 0.5) / (n + 0.5))
                    score += idf * tf * (K1 + 1) / (tf + K1 * (1 - B + B * len(own) / average))
            if score:
                expected.append((-score, key))
        expected.sort()
        for k in (1, 10, 40, 9_000) if query == "w0 long" else (1, 10, 40):
            found = index.find(query, k=k)
            assert [one.score for one in found] == pytest.approx([-score for score, _ in expected[:k]], abs=1e-5)
