"""Documents, an index and an engine that waits, for tests of the tool `deep_search`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from clicket.search import Document, Index

NAME = "deep_search"
QUESTION = "In which borough was the man born with whom Ada Lovelace worked?"
DOCUMENTS = [
    {"id": "ada", "title": "Ada Lovelace", "text": "Ada Lovelace was a writer. She worked with Charles Babbage."},
    {"id": "charles", "title": "Charles Babbage", "text": "Charles Babbage was an engineer. He was born in Walworth."},
    {"id": "walworth", "title": "Walworth", "text": "Walworth is a district in the Borough of Southwark."},
    {"id": "cambridge", "title": "Cambridge", "text": "Cambridge is a city on the River Cam."},
]
MESSAGES = ("state", "extend", "search", "final_result")


@contextmanager
def index_in_memory() -> Iterator[Index]:
    with Index.open() as index:
        index.add(DOCUMENTS)
        yield index


class Gate:
    """An engine that waits until the test opens it. `began` lists its queries, `cancelled` those that were cancelled."""

    name = "gate"

    def __init__(self, index: Index, *, shut: bool = True) -> None:
        self._index = index
        self.began: list[str] = []
        self.cancelled: list[str] = []
        self.open = asyncio.Event()
        if not shut:
            self.open.set()

    async def search(self, query: str, *, k: int = 10) -> Sequence[Document]:
        self.began.append(query)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(query)
            raise
        return await self._index.search(query, k=k)


def messages(events: Iterable[Any]) -> list[dict[str, Any]]:
    return [e.data["content"] for e in events if e.type == "output"]


def index_at(path: Path, documents: Sequence[dict[str, str]] = tuple(DOCUMENTS)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with Index.open(path) as index:
        index.add(documents)
    return path
