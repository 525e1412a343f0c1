"""What grows with the number of calls? Writes benchmarks/GROWTH.md. `python -m benchmarks.growth [--calls 1000000]`

Each reading is made in SQLite stores of few and of many finished calls, real ones with an outcome; one in fifty of them failed. A figure is
the CPU time of the whole process, the least of three: other programs change it little. A reading whose filter no index knows looks at
10,000 calls a page, and gives a cursor for the rest.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import platform
import resource
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time, time

from clicket import Runtime, Settings, tool
from clicket.agents import ReActAgent
from clicket.model.chat import ChatReply, ChatRequest, ToolUse, Usage

_PAGE = Path(__file__).with_name("GROWTH.md")
_FEW = 5_000
_SIDE_BY_SIDE = 500
_WAITING = 100_000
_TURNS = 1_000
_STEPS = 1_250
"""Of one turn: four events of the turn and its calls a step."""


@tool
async def weather(city: int) -> dict[str, int]:
    """The weather of a city. One in fifty is not known."""
    if city % 50 == 49:
        raise ValueError("this city is not known")
    return {"city": city, "degrees": city % 40}


@tool(timeout=3_600)
async def wait(number: int) -> int:
    """Wait for ever."""
    await asyncio.Event().wait()
    return number


def _settings(**limits: int) -> Settings:
    return Settings(max_concurrency=100, **limits)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def _fill(store: str, calls: int) -> None:
    async with Runtime([weather], store=store, settings=_settings()) as rt:
        for first in range(0, calls, _SIDE_BY_SIDE):
            await asyncio.gather(
                *(
                    rt.call("weather", {"city": number}, thread=f"t{number % 1_000}", metadata={"batch": number // 100})
                    for number in range(first, min(first + _SIDE_BY_SIDE, calls))
                )
            )


def _readings(rt: Runtime, began: float) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "history(), the newest page": rt.history,
        "history(thread=)": lambda: rt.history(thread="t7"),
        "history(tool=)": lambda: rt.history(tool="weather"),
        'history(state="failed")': lambda: rt.history(state="failed"),
        "history(tool=, state=), no match": lambda: rt.history(tool="weather", state="cancelled"),
        "history(active=True)": lambda: rt.history(active=True),
        "history(until=), before the first": lambda: rt.history(until=began),
        "history(id_contains=), no match": lambda: rt.history(id_contains="nothing-like-this"),
        "history(request_id=), no match": lambda: rt.history(request_id="none"),
        "history(metadata=), no match": lambda: rt.history(metadata={"batch": "none"}),
        "unknown()": rt.unknown,
        "threads()": rt.threads,
        "a call": lambda: rt.call("weather", {"city": 1}),
    }


async def _figures(store: str, began: float) -> dict[str, float]:
    figures: dict[str, float] = {}
    start = process_time()
    async with Runtime([weather], store=store, settings=_settings()) as rt:
        figures["opening"] = process_time() - start
        for name, read in _readings(rt, began).items():
            times = []
            for _ in range(3):
                gc.collect()
                start = process_time()
                await read()
                times.append(process_time() - start)
            figures[name] = min(times)
    return figures


async def _waiting(store: str, calls: int) -> tuple[float, float]:
    """Bytes of memory, and seconds of CPU, that a call takes which waits in the queue."""
    async with Runtime([wait], store=store, settings=_settings(max_queue=calls)) as rt:
        gc.collect()
        before, start = _resident(), process_time()
        for first in range(0, calls, _SIDE_BY_SIDE):
            await asyncio.gather(*(rt.submit("wait", {"number": first + at}) for at in range(_SIDE_BY_SIDE)))
        gc.collect()
        grown, spent = _resident() - before, process_time() - start
        await rt.close(patience=0)
    return grown / calls, spent / calls


class _Asking:
    """A model that asks for `steps` tool calls, one a step, and then answers."""

    name = "asking"

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self.asked = 0
        self.times: list[float] = []

    async def chat(self, request: ChatRequest) -> ChatReply:
        self.times.append(process_time())
        self.asked += 1
        if self.asked % (self._steps + 1) == 0:
            return ChatReply(text="done", usage=Usage(input_tokens=1, output_tokens=1))
        use = ToolUse(id=f"u{self.asked}", name="weather", arguments=f'{{"city": {self.asked * 50}}}')
        return ChatReply(uses=(use,), usage=Usage(input_tokens=1, output_tokens=1))


async def _turns(store: str, turns: int) -> tuple[float, float]:
    """Seconds of CPU of one of the first and of one of the last turns of a thread."""
    model = _Asking(0)
    async with Runtime([weather], store=store, settings=_settings()) as rt:
        agent = ReActAgent(rt, model, system="Be brief.")
        for number in range(turns):
            await agent.run(f"question {number}", thread="long")
    return _first_and_last(model.times, 50)


async def _steps(store: str, steps: int) -> tuple[float, float]:
    model = _Asking(steps)
    async with Runtime([weather], store=store, settings=_settings()) as rt:
        result = await ReActAgent(rt, model, system="Be brief.", max_steps=steps + 1, max_calls=steps).run(
            "many", thread="deep"
        )
        assert result.text == "done", result.text
    return _first_and_last(model.times, 50)


def _first_and_last(times: list[float], count: int) -> tuple[float, float]:
    return (times[count] - times[0]) / count, (times[-1] - times[-1 - count]) / count


def _times(folder: Path, calls: int) -> list[str]:
    found = []
    for number in (_FEW, calls):
        store, began = f"sqlite:///{folder}/{number}.db", time()
        asyncio.run(_fill(store, number))
        print(f"{number:,} calls are there", flush=True)
        found.append(asyncio.run(_figures(store, began)))
    few, many = found
    return [f"| {name} | {few[name] * 1e3:.1f} | {many[name] * 1e3:.1f} |" for name in few]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--waiting", type=int, default=_WAITING)
    parser.add_argument("--quiet", action="store_true", help="print, and leave the page as it is")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        waiting = [  # first: what was freed before would hide what grows
            (title, *asyncio.run(_waiting(store, given.waiting)))
            for title, store in (("memory", "memory://"), ("SQLite", f"sqlite:///{folder}/waiting.db"))
        ]
        rows = _times(folder, given.calls)
        first, last = asyncio.run(_turns(f"sqlite:///{folder}/turns.db", _TURNS))
        rows.append(
            f"| a turn of an agent, one answer: the first, and number {_TURNS:,} of its thread | {first * 1e3:.2f} | {last * 1e3:.2f} |"
        )
        first, last = asyncio.run(_steps(f"sqlite:///{folder}/steps.db", _STEPS))
        rows.append(
            f"| a step of a turn with one tool call: the first, and number {_STEPS:,} | {first * 1e3:.2f} | {last * 1e3:.2f} |"
        )
    text = "\n".join(
        (
            "# What grows",
            "",
            "Made by `python -m benchmarks.growth`; do not edit.",
            "",
            (__doc__ or "").split("\n\n", 1)[1].replace("\n", " ").strip(),
            "",
            f"Python {platform.python_version()}, {platform.machine()}.",
            "",
            f"| CPU, ms | {_FEW:,} calls | {given.calls:,} calls |",
            "|---|---:|---:|",
            *rows,
            "",
            f"| {given.waiting:,} calls that wait in the queue of one process | bytes a call | CPU a call, µs |",
            "|---|---:|---:|",
            *(f"| {title} | {size:,.0f} | {spent * 1e6:.0f} |" for title, size, spent in waiting),
            "",
        )
    )
    print(text)
    if not given.quiet:
        _PAGE.write_text(text)


if __name__ == "__main__":
    main()
