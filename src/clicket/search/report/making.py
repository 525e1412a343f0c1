"""How the answer came about, in sentences: the same in every form of report."""

from __future__ import annotations

from collections.abc import Iterator

from clicket.search.dossier import SearchResult
from clicket.search.report.contents import stopped

__all__ = ["counted", "making"]


def counted(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def making(result: SearchResult) -> Iterator[str]:
    searches = [found for one in result.rounds for found in one.found]
    failed = sum(found.error is not None for found in searches)
    said = f"{counted(len(result.rounds), 'round')}, {counted(len(searches), 'search', 'searches')}"
    if failed:
        said += f", of which {failed:,} failed"
    yield f"{said}; {counted(len(result.documents), 'document')} found, duplicates merged. It ended because {stopped(result)}."
    yield (
        "Every citation is a stretch of a document that was found, word for word: its place, its text and its SHA-256 were "
        "compared with the document before this was written. Whether a document is right is for its reader to judge."
    )
    if any(one.analysis is not None for one in result.rounds):
        yield "The completeness score tells how much of the question is covered by what was found, not whether the answer is right."
    if result.usage.total:
        yield (
            f"A language model was asked: {counted(result.usage.input_tokens, 'token')} in, "
            f"{counted(result.usage.output_tokens, 'token')} out."
        )
