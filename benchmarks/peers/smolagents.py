"""smolagents' LocalPythonExecutor: an evaluator of syntax trees in the process that uses it. No process, nothing to interrupt."""

from __future__ import annotations

import asyncio

from smolagents.local_python_executor import LocalPythonExecutor

from benchmarks import sessions, timing


class Smolagents:
    """Its calls block; the coroutines exist because the same functions measure all engines."""

    async def open(self) -> LocalPythonExecutor:
        executor = LocalPythonExecutor([])
        executor.send_tools({})
        return executor

    async def run(self, executor: LocalPythonExecutor, code: str) -> str:
        return executor(code).logs

    async def close(self, executor: LocalPythonExecutor) -> None:
        executor.state.clear()


async def main() -> None:
    arguments = timing.budget()
    starts, _, many = sessions.sizes()
    engine = Smolagents()
    figures = {"start_ms": await sessions.first_results(engine, starts)}
    figures |= await sessions.blocks(engine, await engine.open(), arguments.seconds)
    figures |= await sessions.side_by_side(engine, many)
    timing.report(figures, timing.versions("smolagents"))


if __name__ == "__main__":
    asyncio.run(main())
