"""Your own parts: a function as an engine, an engine that fails, and a planner for tickets."""

import asyncio
import re

from clicket.search import Findings, deep_search

TICKETS = {
    "T-101": ("Login broke on Friday", "Login broke on Friday, for all users. It was caused by change C-7."),
    "T-102": ("Export button stays grey", "The export button stays grey. Not reproduced."),
    "C-7": (
        "Sessions in another store",
        "Change C-7 moved sessions to another store. It was rolled back by Ann Lee (ann@shop.test).",
    ),
    "C-8": ("Export renamed", "Change C-8 renamed the export."),
}


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", text.lower()))


def tickets(query: str) -> list[dict[str, str]]:
    """An engine may be a plain function, which runs in a thread. It matches numbers and subjects; its mappings become documents."""
    hits = [key for key, (subject, _) in TICKETS.items() if words(query) & words(f"{key} {subject}")]
    return [{"id": key, "title": key, "content": TICKETS[key][1]} for key in hits]


async def chat_history(query: str) -> list[dict[str, str]]:
    raise TimeoutError("the chat does not answer")


class ByNumber:
    """Follows ticket and change numbers, which a general planner does not recognize as names."""

    async def plan(self, findings: Findings) -> list[str]:
        if not findings.rounds:
            return [findings.question]
        seen = " ".join(one.text for one in findings.best(5))
        return sorted(set(re.findall(r"\b[TC]-\d+\b", seen)))  # earlier queries are removed; none left ends it


async def main() -> None:
    result = await deep_search(
        "Who rolled back the change that broke the login?",
        engines=[tickets, chat_history],
        planner=ByNumber(),
        max_loop=3,
    )
    for one in result.rounds:
        print(one.number, one.queries, "found", one.documents)
    print(result.answer)
    print(*result.notes, sep="\n")  # a failing engine does not affect the others; a note reports it
    assert any("ann@shop.test" in one.text for one in result.citations)
    assert any("the chat does not answer" in note for note in result.notes)


if __name__ == "__main__":
    asyncio.run(main())
