"""What does a waiting `POST /calls` cost beside a bare route, and beside an MCP server?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.asking import CONNECTIONS
from benchmarks.question import Answer, Column, Contender, Measure, Question, Required, high

__all__ = ["QUESTION"]

_FASTMCP = {"fastmcp": "2026-07-28", "fastmcp-2025": "2025-11-25"}


def _ours(variant: str, title: str) -> Contender:
    return Contender(name=variant, title=title, environment="clicket", module="benchmarks.ours.server", variant=variant)


def _to_bare(name: str) -> Measure:
    return lambda answer: answer.ratio(name, "fastapi", "per_second")


def _to_fastmcp(name: str) -> Measure:
    """Against the version of the protocol in which FastMCP is the faster one."""

    def measure(answer: Answer) -> float | None:
        ours = answer.median(name, "per_second")
        theirs = [rate for peer in _FASTMCP if (rate := answer.median(peer, "per_second"))]
        return ours / max(theirs) if ours and len(theirs) == len(_FASTMCP) else None

    return measure


def _times(value: float) -> str:
    return f"{value:.2f} ×"


QUESTION = Question(
    name="server",
    title="A call over HTTP",
    about=(
        f"An async tool that returns a small dict, asked for over loopback: {CONNECTIONS} connections that stay open, each "
        "with one request under way; then p50 of one connection alone. The client is the same for all, in a process of its "
        "own, and sees to it that every answer is a success with the right output; “client busy” shows that it is not what "
        "is measured. Each server is one process with the same uvicorn settings (asyncio, httptools, no access log unless "
        "named) and shares the machine's cores with the client. The bare route is FastAPI the usual way, a pydantic model "
        "in, a dict out, and does nothing else. “With a key”: in the store, looked up for every request, so that one that "
        "is revoked fails at once (the memory store's is in the settings). FastMCP is stateless and answers plain JSON, "
        "its cheapest case; it is judged by the version of the protocol in which it is faster. The server's CPU time per "
        "request is the figure that depends least on what else the machine did."
    ),
    contenders=(
        Contender(name="fastapi", title="bare FastAPI route", environment="clicket", module="benchmarks.peers.fastapi"),
        _ours("memory", "clicket, memory"),
        _ours("memory-key", "clicket, memory, with a key"),
        _ours("process", "clicket, SQLite, process mode"),
        _ours("process-key", "clicket, SQLite, process mode, with a key"),
        _ours("process-log", "clicket, SQLite, process mode, with its access log"),
        _ours("memory-mcp", "clicket, memory, MCP 2026-07-28"),
        _ours("process-mcp", "clicket, SQLite, process mode, MCP 2026-07-28"),
        *(
            Contender(
                name=name,
                title=f"FastMCP, MCP {version}",
                environment="fastmcp",
                module="benchmarks.peers.fastmcp",
                variant=version,
            )
            for name, version in _FASTMCP.items()
        ),
    ),
    columns=(
        Column(figure="per_second", title=f"{CONNECTIONS} connections", show=show.per_second),
        Column(figure="p50_loaded_ms", title="p50", show=show.milli),
        Column(figure="p99_ms", title="p99", show=show.milli),
        Column(figure="p50_us", title="one connection, p50", show=show.micro),
        Column(figure="cpu_us", title="server's CPU per request", show=show.micro),
        Column(figure="client_busy", title="client busy", show=show.percent),
    ),
    required=(
        *(
            Required(
                text=f"`POST /calls` with wait, {words}, against a bare FastAPI route, rate",
                measure=_to_bare(name),
                limit=0.4,
                show=_times,
            )
            for name, words in (("memory", "memory"), ("process", "SQLite"), ("process-key", "SQLite with a key"))
        ),
        *(
            Required(
                text=f"`POST /calls` with wait, {words}, against a FastMCP tool call, rate",
                measure=_to_fastmcp(name),
                limit=3,
                show=_times,
            )
            for name, words in (("memory", "memory"), ("process", "SQLite"))
        ),
        Required(
            text="an MCP tool call, memory, against a FastMCP tool call, rate",
            measure=_to_fastmcp("memory-mcp"),
            limit=1,
            beyond=True,
            show=_times,
        ),
        Required(
            text="the client that asks the servers, beside the bare route: busy at most",
            measure=high(("fastapi",), "client_busy"),
            limit=0.6,
            at_most=True,
            beyond=True,
            show=show.percent,
        ),
    ),
)
