"""Tools that the agents of these tests have. `crawl` goes on until somebody makes the file `go`."""

from __future__ import annotations

from pathlib import Path

from tests.kit.waiting import file_exists

from clicket import ToolContext, tool


@tool(idempotent=True)
async def crawl(pages: int, ctx: ToolContext) -> str:
    """Visit pages; the last one comes when it may."""
    with Path("crawled").open("a") as file:
        file.write("x")
    for page in range(1, pages + 1):
        ctx.progress(page, pages, f"page {page}")
    await file_exists("go")
    return f"{pages} pages\x1b[31m"


@tool
async def count(word: str) -> int:
    """How long a word is."""
    with Path("counted").open("a") as file:
        file.write("x")
    return len(word)


@tool
async def pay(amount: int) -> str:
    """Needs a person's word."""
    with Path("paid").open("a") as file:
        file.write("x")
    return f"paid {amount}"
