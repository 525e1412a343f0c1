"""What does one step of an agent cost besides the model and the tool: alone, in parallel, in long threads and in many?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Question, Required

__all__ = ["QUESTION"]

_OURS, _LANGCHAIN = "benchmarks.ours.agents", "benchmarks.peers.langchain_agent"


def _required(text: str, theirs: str, ours: str, limit: float, figure: str = "step_us", *, beyond: bool) -> Required:
    return Required(
        text=text,
        measure=lambda answer: answer.ratio(theirs, ours, figure),
        limit=limit,
        show=lambda value: f"1/{value:.0f}" if value >= 10 else f"1/{value:.1f}".removesuffix(".0"),
        as_fraction=True,
        beyond=beyond,
    )


def _pairs(what: str, figure: str, *, beyond: bool) -> tuple[Required, ...]:
    return (
        _required(f"{what}, memory, against create_agent", "langchain", "memory", 12, figure, beyond=beyond),
        _required(f"{what}, memory, against pydantic-ai's Agent", "pydantic-ai", "memory", 2, figure, beyond=beyond),
        _required(
            f"{what}, SQLite, against create_agent with AsyncSqliteSaver",
            "langchain-sqlite",
            "process",
            10,
            figure,
            beyond=beyond,
        ),
    )


QUESTION = Question(
    name="agents",
    title="Overhead of an agent's step",
    about=(
        "A model that answers at once and an async tool that returns a small dict, on every side. One turn is 20 answers of "
        "the model: 19 ask for a tool call, the last one says “done”; a step is the median turn divided by 20, each turn in "
        "a thread of its own. “5 calls”: each of the 19 answers asks for five tool calls. “Long thread”: the same turn after "
        "200 others in its thread. “1,000 threads”: all started at once in one process, a turn of 5 answers and 4 tool calls "
        "in each; memory is the growth of the peak of the resident set, the stall how late a task that wakes every 2 ms ever "
        "was. Who has no threads of its own is given the messages that it returned. Every contender counts what it asked the "
        "model and how often the tool ran, and one that did more or less is no contender. clicket records each answer before "
        "it follows it, and each tool call with its six stages; in memory the peers record nothing."
    ),
    contenders=(
        Contender(name="memory", title="clicket, memory", environment="clicket", module=_OURS, variant="memory"),
        Contender(
            name="langchain",
            title="langchain create_agent",
            environment="langchain_agent",
            module=_LANGCHAIN,
            variant="memory",
        ),
        Contender(
            name="pydantic-ai",
            title="pydantic-ai Agent",
            environment="pydantic_ai",
            module="benchmarks.peers.pydantic_ai_agent",
        ),
        Contender(
            name="process",
            title="clicket, SQLite, process mode",
            environment="clicket",
            module=_OURS,
            variant="process",
        ),
        Contender(
            name="langchain-sqlite",
            title="create_agent + AsyncSqliteSaver, as shipped",
            environment="langchain_agent",
            module=_LANGCHAIN,
            variant="sqlite",
        ),
        Contender(
            name="power", title="clicket, SQLite, power mode", environment="clicket", module=_OURS, variant="power"
        ),
        Contender(
            name="langchain-sqlite-normal",
            title="create_agent + AsyncSqliteSaver, WAL/NORMAL",
            environment="langchain_agent",
            module=_LANGCHAIN,
            variant="sqlite-normal",
        ),
    ),
    columns=(
        Column(figure="step_us", title="a step", show=show.micro),
        Column(figure="wide_us", title="a step of 5 calls", show=show.micro),
        Column(figure="long_us", title="a step in a long thread", show=show.micro),
        Column(figure="threads_s", title="1,000 threads", show=show.seconds),
        Column(figure="threads_bytes", title="their memory", show=show.size),
        Column(figure="threads_stall_ms", title="longest stall", show=show.milli),
        Column(figure="asked", title="model asked per turn", show=show.count),
        Column(figure="ran", title="tools run per turn", show=show.count),
    ),
    required=(
        *_pairs("a step", "step_us", beyond=False),
        _required(
            "a step, SQLite, against AsyncSqliteSaver with our settings",
            "langchain-sqlite-normal",
            "process",
            10,
            beyond=True,
        ),
        *_pairs("a step of 5 calls", "wide_us", beyond=True),
        *_pairs("a step in a long thread", "long_us", beyond=True),
    ),
    max_rounds=5,
)
