"""What does one call cost, and how many complete per second with 100 at once? An async no-op tool on every side."""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Answer, Column, Contender, Question, Required

__all__ = ["QUESTION"]

_OURS = "benchmarks.ours.overhead"
_DURABLE_PEERS = ("langgraph-sqlite", "langgraph-sqlite-normal", "dbos-sqlite", "dbos-sqlite-normal")


def _against_best_durable(answer: Answer) -> float | None:
    ours = answer.median("clicket-process", "per_second")
    theirs = [answer.median(name, "per_second") for name in _DURABLE_PEERS]
    known = [figure for figure in theirs if figure]
    return ours / max(known) if ours and known else None


def _required(
    text: str, theirs: str, ours: str, limit: float, aim: float | None = None, *, beyond: bool = False
) -> Required:
    return Required(
        text=text,
        measure=lambda answer: answer.ratio(theirs, ours, "p50_us"),
        limit=limit,
        aim=aim,
        show=lambda value: f"1/{value:.0f}" if value >= 10 else f"1/{value:.1f}".removesuffix(".0"),
        as_fraction=True,
        beyond=beyond,
    )


QUESTION = Question(
    name="overhead",
    title="Overhead of one call",
    about=(
        "An async tool that returns a small dict, p50 of calls made one at a time, and calls per second with 100 callers. "
        "Peers marked “as shipped” run with their own settings, which sync the disk at every commit, as our power mode "
        "does; “WAL/NORMAL” gives them the settings of our process mode. Both pairs are judged, and the best of all of "
        "them is the one that counts at 100 callers. "
        "Raw apsw inserts the very rows that our calls left behind, ready-made, 100 calls a commit."
    ),
    contenders=(
        Contender(name="bare", title="bare await", environment="clicket", module=_OURS, variant="bare"),
        Contender(
            name="clicket-memory", title="clicket, memory", environment="clicket", module=_OURS, variant="memory"
        ),
        Contender(
            name="pydantic-toolset",
            title="pydantic-ai FunctionToolset, validate + call",
            environment="pydantic_ai",
            module="benchmarks.peers.pydantic_ai",
            variant="toolset",
        ),
        Contender(
            name="pydantic-manager",
            title="pydantic-ai ToolManager.handle_call",
            environment="pydantic_ai",
            module="benchmarks.peers.pydantic_ai",
            variant="manager",
        ),
        Contender(
            name="langchain",
            title="langchain tool.ainvoke",
            environment="langchain",
            module="benchmarks.peers.langchain",
        ),
        Contender(
            name="langgraph",
            title="LangGraph, graph of one ToolNode",
            environment="langgraph",
            module="benchmarks.peers.langgraph",
            variant="graph",
        ),
        Contender(
            name="clicket-process",
            title="clicket, SQLite, process mode",
            environment="clicket",
            module=_OURS,
            variant="process",
        ),
        Contender(
            name="raw-apsw",
            title="raw apsw, the same rows in grouped commits",
            environment="clicket",
            module="benchmarks.ours.rows",
            variant="process",
        ),
        Contender(
            name="clicket-power",
            title="clicket, SQLite, power mode",
            environment="clicket",
            module=_OURS,
            variant="power",
        ),
        Contender(
            name="langgraph-sqlite",
            title="LangGraph + AsyncSqliteSaver, as shipped",
            environment="langgraph",
            module="benchmarks.peers.langgraph",
            variant="sqlite",
        ),
        Contender(
            name="langgraph-sqlite-normal",
            title="LangGraph + AsyncSqliteSaver, WAL/NORMAL",
            environment="langgraph",
            module="benchmarks.peers.langgraph",
            variant="sqlite-normal",
        ),
        Contender(
            name="dbos-sqlite",
            title="DBOS workflow of one step, SQLite, as shipped",
            environment="dbos",
            module="benchmarks.peers.dbos",
            variant="sqlite",
        ),
        Contender(
            name="dbos-sqlite-normal",
            title="DBOS workflow of one step, SQLite, WAL/NORMAL",
            environment="dbos",
            module="benchmarks.peers.dbos",
            variant="sqlite-normal",
        ),
    ),
    columns=(
        Column(figure="p50_us", title="one call, p50", show=show.micro),
        Column(figure="per_second", title="at 100 callers", show=show.per_second),
    ),
    required=(
        _required("memory against langchain's ainvoke, p50", "langchain", "clicket-memory", 10, 14),
        _required("memory against a LangGraph graph of one ToolNode, p50", "langgraph", "clicket-memory", 38, 50),
        _required("SQLite against LangGraph with AsyncSqliteSaver, p50", "langgraph-sqlite", "clicket-process", 32, 45),
        _required("SQLite against a DBOS workflow of one step, p50", "dbos-sqlite", "clicket-process", 60, 85),
        _required(
            "SQLite against AsyncSqliteSaver with our settings, p50",
            "langgraph-sqlite-normal",
            "clicket-process",
            20,
            beyond=True,
        ),
        _required(
            "SQLite against DBOS with our settings, p50", "dbos-sqlite-normal", "clicket-process", 30, beyond=True
        ),
        _required(
            "power mode against AsyncSqliteSaver as shipped, p50", "langgraph-sqlite", "clicket-power", 20, beyond=True
        ),
        _required("power mode against DBOS as shipped, p50", "dbos-sqlite", "clicket-power", 30, beyond=True),
        Required(
            text="SQLite against the best durable peer, calls per second at 100 callers",
            measure=_against_best_durable,
            limit=20,
        ),
        Required(
            text="SQLite, calls per second at 100 callers (or 20 % of raw apsw, the next row)",
            measure=lambda answer: answer.median("clicket-process", "per_second"),
            limit=15_000,
            show=show.per_second,
        ),
        Required(
            text="SQLite against raw apsw, calls per second at 100 callers",
            measure=lambda answer: answer.ratio("clicket-process", "raw-apsw", "per_second"),
            limit=0.20,
            show=show.percent,
            beyond=True,
        ),
    ),
)
