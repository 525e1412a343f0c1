"""The tools of the agents of these tests. `crawl` runs until the file `go` exists."""

from __future__ import annotations

from pathlib import Path

from tests.kit.waiting import file_exists

from clicket import ToolContext, tool


@tool(idempotent=True)
async def crawl(pages: int, ctx: ToolContext) -> str:
    """Visits pages, and ends when the file `go` exists."""
    with Path("crawled").open("a") as file:
        file.write("x")
    for page in range(1, pages + 1):
        ctx.progress(page, pages, f"page {page}")
    await file_exists("go")
    return f"{pages} pages\x1b[31m"


@tool
async def count(word: str) -> int:
    """The length of a word."""
    with Path("counted").open("a") as file:
        file.write("x")
    return len(word)


@tool
async def pay(amount: int) -> str:
    """Needs approval."""
    with Path("paid").open("a") as file:
        file.write("x")
    return f"paid {amount}"
