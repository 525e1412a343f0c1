"""Posting lists: long ones, keys that are used again, terms that another version stored, and files of the first version."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import apsw

from clicket.search.index.index import Index

SECOND_VERSION_REMOVED = (
    "DROP INDEX documents_ids",
    "DROP TABLE posting_lists",
    "ALTER TABLE passages DROP COLUMN terms",
    "CREATE VIRTUAL TABLE postings USING fts5 (terms, content='', contentless_delete=1, detail=none, tokenize='ascii')",
    "CREATE VIRTUAL TABLE instances USING fts5vocab (postings, instance)",
    "CREATE TABLE frequencies (term TEXT NOT NULL PRIMARY KEY, passages INTEGER NOT NULL) STRICT, WITHOUT ROWID",
)
"""What makes an empty table structure of the first version of a file of the second."""


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
    """Bits are missing in a file of an older version, and where few passages have the term."""
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


def test_a_file_of_the_first_version_is_converted(tmp_path: Path) -> None:
    """There the postings were in FTS5, and a number of occurrences was a token of its own."""
    path = tmp_path / "index.db"
    rows = [
        {"id": "1", "title": "Zebra", "text": "zebra zebra okapi"},
        {"id": "2", "title": "", "text": "okapi json.loads 北京"},
        {"id": "3", "title": "Gnu", "text": "zebra " * 40},
    ]
    with Index.open(path) as index:
        index.add(rows)
        found = {query: index.find(query) for query in ("zebra", "okapi", "json.loads", "北京", "京")}
        counts = list(index.frequencies(["zebra", "okapi", "北京"]))
    with closing(apsw.Connection(str(path))) as connection:
        stored: dict[int, list[str]] = {}
        for term, entries in connection.execute("SELECT term, entries FROM posting_lists").fetchall():
            for at in range(0, len(entries), 4):
                passage, count = divmod(int.from_bytes(entries[at : at + 4], "little"), 16)
                stored.setdefault(passage, []).extend([term] if count == 1 else [term, term + chr(0xE000 + count)])
        for statement in SECOND_VERSION_REMOVED:
            connection.execute(statement)
        for passage, tokens in stored.items():
            connection.execute("INSERT INTO postings (rowid, terms) VALUES (?, ?)", (passage, " ".join(tokens)))
        connection.pragma("user_version", 1)
    with Index.open(path) as index:
        assert {query: index.find(query) for query in found} == found
        assert list(index.frequencies(["zebra", "okapi", "北京"])) == counts
        index.remove(["3"])
        assert list(index.frequencies(["zebra"])) == [1]
