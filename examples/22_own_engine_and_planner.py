"""Parts of one's own: a function that searches, an engine that fails, and a planner that knows its field."""

import asyncio
import re

from clicket.search import Findings, deep_search

TICKETS = {
    "T-101": ("Login broke on Friday", "Login broke on Friday, for everybody. It was caused by change C-7."),
    "T-102": ("Export button stays grey", "The export button stays grey. Not reproduced."),
    "C-7": (
        "Sessions in another store",
        "Change C-7 moved sessions to another store. It was rolled back by ann@shop.test.",
    ),
    "C-8": ("Export renamed", "Change C-8 renamed the export."),
}


def words(text: str) -> set[str]:
    return set(re.findall(r"[\w-]+", text.lower()))


def tickets(query: str) -> list[dict[str, str]]:
    """An engine may be a plain function; it runs in a thread. This one knows numbers and subjects. Mappings become documents."""
    hits = [key for key, (subject, _) in TICKETS.items() if words(query) & words(f"{key} {subject}")]
    return [{"id": key, "title": key, "content": TICKETS[key][1]} for key in hits]


async def chat_history(query: str) -> list[dict[str, str]]:
    raise TimeoutError("the chat does not answer")


class ByNumber:
    """Follows numbers of tickets and changes, which no general planner would take for names."""

    async def plan(self, findings: Findings) -> list[str]:
        if not findings.rounds:
            return [findings.question]
        seen = " ".join(one.text for one in findings.best(5))
        return sorted(set(re.findall(r"\b[TC]-\d+\b", seen)))  # what was asked before is taken out; nothing new ends it


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
    print(*result.notes, sep="\n")  # an engine that fails harms no other, and is told of
    assert any("ann@shop.test" in one.text for one in result.citations)
    assert any("the chat does not answer" in note for note in result.notes)


if __name__ == "__main__":
    asyncio.run(main())
