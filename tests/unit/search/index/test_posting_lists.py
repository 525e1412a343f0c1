"""Posting lists: long ones, keys that are used again, and terms that another version of the code that reads texts stored."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import apsw

from clicket.search.index.index import Index


def test_long_lists_stay_right_when_passages_come_and_go(tmp_path: Path) -> None:
    """Keys of removed passages are used again, in the middle of lists that have several blocks."""
    chance = random.Random(5)
    held: dict[str, list[str]] = {}
    with Index.open(tmp_path / "index.db") as index:
        for turn in range(4):
            new = {
                f"{chance.randrange(6_000)}": ["gnu", f"w{chance.randrange(40)}", f"turn{turn}"] for _ in range(2_500)
            }
            index.add([{"id": key, "text": " ".join(words)} for key, words in new.items()])
            held.update(new)
            gone = chance.sample(sorted(held), 700)
            assert index.remove(gone) == 700
            for key in gone:
                del held[key]
        every = ["gnu", *(f"w{number}" for number in range(40)), *(f"turn{number}" for number in range(4))]
        assert list(index.frequencies(every)) == [sum(word in words for words in held.values()) for word in every]
        for query in ("gnu w7 turn2", "w1 w2 w3"):
            wanted = query.split()
            best = index.find(query, k=50)
            shared = [sum(word in held[one.id] for word in wanted) for one in best]
            assert max(sum(word in words for word in wanted) for words in held.values()) == shared[0]
            assert [one.text.split() for one in best] == [held[one.id] for one in best]


def test_every_block_of_a_list_that_became_long_has_its_bits(tmp_path: Path) -> None:
    """Also those that were written when the list was short: a search would make them at every reading."""
    path = tmp_path / "index.db"
    with Index.open(path) as index:
        for turn in range(3):
            index.add([{"id": f"{turn}-{number}", "text": "gnu"} for number in range(2_100)])
    with closing(apsw.Connection(str(path))) as connection:
        rows = connection.execute("SELECT block, bits IS NULL FROM posting_lists WHERE term = 'gnu' ORDER BY block")
        assert rows.fetchall() == [(0, 0), (1, 0), (2, 0), (3, 0)]


def test_a_long_list_without_bits_gives_the_same_scores(tmp_path: Path) -> None:
    """Bits are missing where few passages have the term, and where they would be large."""
    path, chance = tmp_path / "index.db", random.Random(7)
    rows = [
        {"id": str(number), "text": "gnu " * chance.choice((1, 1, 1, 2, 4, 7)) + "okapi " * chance.randrange(9)}
        for number in range(4_500)
    ]
    with Index.open(path) as index:
        index.add(rows)
        asked = [("gnu", 20), ("gnu okapi okapi", 20), ("okapi gnu", 5_000)]
        found = [index.find(query, k=k) for query, k in asked]
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE posting_lists SET bits = NULL")
    with Index.open(path) as index:
        assert [index.find(query, k=k) for query, k in asked] == found


def test_a_passage_is_removed_from_lists_that_its_text_no_longer_leads_to(tmp_path: Path) -> None:
    """As if another version of the program had read another term in it."""
    path = tmp_path / "index.db"
    with Index.open(path) as index:
        index.add([{"id": "1", "text": "okapi zebra"}, {"id": "2", "text": "zebra lemur"}])
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("UPDATE posting_lists SET term = 'former' WHERE term = 'okapi'")
    with Index.open(path) as index:
        assert [one.id for one in index.find("former")] == ["1"]
        index.add([{"id": "1", "text": "gnu"}, {"id": "3", "text": "ibex"}])
        assert list(index.frequencies(["former", "zebra", "gnu"])) == [0, 1, 1]
        assert index.find("former okapi") == []


def test_a_document_twice_in_one_change_counts_once() -> None:
    with Index.open() as index:
        index.add([{"id": "1", "text": "okapi zebra"}, {"id": "1", "text": "zebra"}, {"id": "2", "text": "okapi"}])
        assert list(index.frequencies(["okapi", "zebra"])) == [1, 1]
        assert [one.id for one in index.find("okapi")] == ["2"]
