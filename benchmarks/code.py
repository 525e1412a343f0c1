"""What does a session of the code interpreter cost beside other ways to run a model's code?"""

from __future__ import annotations

from benchmarks import show
from benchmarks.question import Column, Contender, Measure, Question, Required, high, median, ratio

__all__ = ["QUESTION"]


def _ours(variant: str, title: str) -> Contender:
    return Contender(name=variant, title=title, environment="clicket", module="benchmarks.ours.code", variant=variant)


def _peer(environment: str, title: str, variant: str = "") -> Contender:
    return Contender(
        name=f"{environment}-{variant}".rstrip("-"),
        title=title,
        environment=environment,
        module=f"benchmarks.peers.{environment}",
        variant=variant,
    )


def _fraction(text: str, measure: Measure, limit: float) -> Required:
    return Required(
        text=text,
        measure=measure,
        limit=limit,
        as_fraction=True,
        show=lambda value: f"1/{value:.0f}" if value >= 10 else f"1/{value:.1f}".removesuffix(".0"),
    )


def _small(text: str, measure: Measure, limit: float, *, beyond: bool = False) -> Required:
    return Required(text=text, measure=measure, limit=limit, at_most=True, beyond=beyond, show=show.milli)


_OURS = (("session", "a session"), ("interpreter", "`Interpreter.run`"))

QUESTION = Question(
    name="code",
    title="Running a program that nobody has read",
    about=(
        "Start: from nothing to the first result of `print(6 * 7)`, the median of 15. A block: `count = count + 1`, one after "
        "the other in the same session, and the session shows in the end that each one ran. Memory: PSS of all processes of "
        "a session that has run one block and waits. Interrupt: from the request to the known end of `while True: pass`, the "
        "session alive afterwards. Kill: a program that ignores all signals and swallows every exception, without the 200 ms "
        "of grace. 1 GB: written to stdout and all of it read, with the growth of the reading process. Side by side: 50 "
        "sessions started at once, each with one block; seconds until the last has run. clicket's sessions are full CPython "
        "with all layers of isolation (namespaces, an own user, seccomp, Landlock, rlimits, cgroups where there are any). "
        "“Warm spare” goes through the whole of `Interpreter.run`, with numpy, pandas and matplotlib loaded. ipykernel is full "
        "CPython without isolation. smolagents' local executor walks the syntax tree in the process that calls it, and "
        "pydantic-monty is an interpreter of its own for a part of the language: nothing has to be started but itself, and no "
        "package can be imported."
    ),
    contenders=(
        _ours("session", "clicket, a session, all layers"),
        _ours("interpreter", "clicket, `Interpreter.run`, all layers"),
        _ours("warm", "clicket, `Interpreter.run`, warm spare"),
        _peer("ipykernel", "jupyter_client + ipykernel"),
        _peer("smolagents", "smolagents LocalPythonExecutor (in process)"),
        _peer("monty", "pydantic-monty, a pool for each session", "cold"),
        _peer("monty", "pydantic-monty, from one pool", "pool"),
    ),
    columns=(
        Column(figure="start_ms", title="start", show=show.milli),
        Column(figure="block_us", title="a block, p50", show=show.micro),
        Column(figure="blocks_per_second", title="blocks", show=show.per_second),
        Column(figure="memory", title="memory at rest", show=show.size),
        Column(figure="interrupt_ms", title="interrupt", show=show.milli),
        Column(figure="kill_ms", title="kill after grace", show=show.milli),
        Column(figure="out_s", title="1 GB of stdout", show=show.seconds),
        Column(figure="out_grown", title="growth by it", show=show.size),
        Column(figure="out_stall_ms", title="longest stall by it", show=show.milli),
        Column(figure="many_s", title="50 side by side", show=show.seconds),
    ),
    required=(
        *(
            _fraction(f"start to first result, {text}, against ipykernel", ratio("ipykernel", name, "start_ms"), 5)
            for name, text in _OURS
        ),
        *(
            _fraction(f"a small block, {text}, against ipykernel, p50", ratio("ipykernel", name, "block_us"), 10)
            for name, text in _OURS
        ),
        *(
            _fraction(f"memory at rest, {text}, against ipykernel", ratio("ipykernel", name, "memory"), 3)
            for name, text in _OURS
        ),
        _small("interrupt of an endless loop", median("session", "interrupt_ms"), 50),
        _small("kill of a program that ignores everything, beyond its grace", median("session", "kill_ms"), 100),
        *(
            Required(
                text=f"small blocks a second, {text}",
                measure=median(name, "blocks_per_second"),
                limit=1_000,
                show=show.per_second,
            )
            for name, text in _OURS
        ),
        Required(
            text="1 GB of stdout: growth of the process that reads it",
            measure=high(("session",), "out_grown"),
            limit=32 * 1024 * 1024,
            at_most=True,
            show=show.size,
        ),
        _small("1 GB of stdout: longest stall of the loop", high(("session",), "out_stall_ms"), 50),
        Required(
            text="50 sessions side by side: those that ran and kept their own variables",
            measure=median("session", "many_right"),
            limit=1,
            show=show.percent,
        ),
        _small("start to first result with a warm spare", median("warm", "start_ms"), 50, beyond=True),
    ),
    max_rounds=3,
)
