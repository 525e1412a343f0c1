"""Question sets as files: NAME.corpus.jsonl.gz, a passage a line {id, title, text}, and NAME.dev.jsonl, {question, gold, answer?}.

The sets are not part of the repository. For a folder without a complete set, the error names what is missing.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["KNOWN", "DataMissing", "Question", "Set", "load"]

KNOWN = {"2wiki": "2Wiki", "hotpotqa": "HotpotQA", "musique": "MuSiQue"}
"""Sets that papers have figures for, in the order of the tables."""

_WHERE = (
    "Call it with DATA=<folder>. The folder has, for each set, NAME.corpus.jsonl.gz (a passage a line: id, title, text) and "
    f"NAME.dev.jsonl (a question a line: question, gold, and where there is one, answer). The known sets are {', '.join(KNOWN)}."
)


class DataMissing(Exception):
    """The message names the missing files."""


@dataclass(frozen=True, kw_only=True)
class Question:
    text: str
    gold: tuple[str, ...]
    answer: str | None
    """None if there is no answer, or it is yes or no."""


@dataclass(frozen=True, kw_only=True)
class Set:
    name: str
    folder: str
    limit: int | None
    passages: tuple[dict[str, str], ...]
    questions: tuple[Question, ...]

    @property
    def title(self) -> str:
        return KNOWN.get(self.name, self.name)


def load(folder: str | None, *, limit: int | None = None, only: str | None = None) -> list[Set]:
    """All sets of the folder, or one; of each the first `limit` questions, over all of its passages."""
    if not folder:
        raise DataMissing(f"The question sets are not part of the repository. {_WHERE}")
    place = Path(folder)
    if not place.is_dir():
        raise DataMissing(f"{folder} is not a folder. {_WHERE}")
    corpora = {path.name.removesuffix(".corpus.jsonl.gz") for path in place.glob("*.corpus.jsonl.gz")}
    asked = {path.name.removesuffix(".dev.jsonl") for path in place.glob("*.dev.jsonl")}
    if not corpora & asked:
        raise DataMissing(f"{folder} has no question set. {_WHERE}")
    lacking = sorted(
        [f"{name}.dev.jsonl" for name in corpora - asked] + [f"{name}.corpus.jsonl.gz" for name in asked - corpora]
    )
    if lacking:
        raise DataMissing(f"{folder} is incomplete: {', '.join(lacking)} is missing. {_WHERE}")
    names = sorted(corpora, key=lambda name: (list(KNOWN).index(name) if name in KNOWN else len(KNOWN), name))
    return [_read(place, name, limit) for name in names if only in (None, name)]


def _read(place: Path, name: str, limit: int | None) -> Set:
    corpus, asked = place / f"{name}.corpus.jsonl.gz", place / f"{name}.dev.jsonl"
    try:
        with gzip.open(corpus, "rt", encoding="utf-8") as file:
            passages = tuple(_passage(json.loads(line)) for line in file if line.strip())
        lines = asked.read_text(encoding="utf-8").splitlines()
        questions = tuple(_question(json.loads(line)) for line in lines if line.strip())
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataMissing(
            f"{place}: the set {name} cannot be read: {type(error).__name__}: {error}. {_WHERE}"
        ) from None
    there = {one["id"] for one in passages}
    strays = sorted({key for one in questions for key in one.gold if key not in there})
    if strays:
        raise DataMissing(
            f"{asked.name} names {len(strays)} passages that {corpus.name} does not have ({strays[0]!r}): the files do "
            "not belong together, or one of them was cut off."
        )
    return Set(name=name, folder=str(place), limit=limit, passages=passages, questions=questions[:limit])


def _passage(row: dict[str, Any]) -> dict[str, str]:
    return {"id": str(row["id"]), "title": str(row.get("title", "")), "text": str(row["text"])}


def _question(row: dict[str, Any]) -> Question:
    answer = row.get("answer")
    plain = str(answer).strip().casefold() if answer is not None else ""
    return Question(
        text=str(row["question"]),
        gold=tuple(map(str, row["gold"])),
        answer=str(answer).strip() if plain not in ("", "yes", "no") else None,
    )
