"""The code interpreter, its tool and the sandbox for a type checker. Read, never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, assert_type

from clicket import Runtime, ToolContext, tool
from clicket.interpreter import (
    ArtifactStore,
    Block,
    CodeState,
    Display,
    File,
    Interpreter,
    ProgramError,
    Result,
    Skipped,
    Status,
    Variable,
    Variables,
    code_interpreter,
    notebook_json,
    to_html,
    to_notebook,
)
from clicket.sandbox import (
    LEVELS,
    Exit,
    Isolation,
    Limits,
    NotIsolated,
    Sandbox,
    SandboxFailed,
    SandboxProcess,
    size_of,
)


class FakeStore:
    """Any class with these two methods fits; there is no base class."""

    async def put(self, pieces: bytes | Sequence[bytes]) -> str:
        return ""

    async def get(self, name: str) -> bytes:
        return b""


async def runs() -> None:
    store: ArtifactStore = FakeStore()
    async with Interpreter(
        require="partial",
        timeout=None,
        memory="512MiB",
        max_steps=3,
        limits=Limits(disk=1 << 30),
        packages=["numpy"],
        wheels=Path("wheels"),
        files="data",
        keep=store,
        idle_after=60,
    ) as ci:
        assert_type(ci, Interpreter)
        files: dict[str, bytes | str | Path] = {"a.csv": b"1", "b.txt": "text", "c.png": Path("c.png")}
        result = await ci.run("print(1)", file_names=["d.csv"], files=files)
        assert_type(result, Result)
        assert_type(ci.history, list[Result])
        assert_type(ci.isolation, Isolation)
        assert_type(await ci.artifact("sha256-0"), bytes)
        messages = ci.stream("1")
        assert_type(messages, AsyncGenerator[dict[str, Any], None])
        ci.begin("1")
        assert_type(ci.state, CodeState)
        while ci.state not in (CodeState.COMPLETED, CodeState.ERROR):
            async for message in ci.step():
                assert_type(message, dict[str, Any])
        await ci.interrupt()
        ci.kill()
        await ci.reset()

        await ci.run(b"print(1)")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        await ci.run("1", files={"a": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
        ci.isolation = Isolation(level="full")  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Interpreter(time_limit=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Interpreter(timeout="1s")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Interpreter(keep={})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def results(result: Result) -> None:
    assert_type(result.status, Status)
    assert_type(result.ok, bool)
    assert_type(result.reason, str | None)
    assert_type(result.value, str | None)
    assert_type(result.error, ProgramError | None)
    assert_type(result.errors, tuple[ProgramError, ...])
    assert_type(result.blocks, tuple[Block, ...])
    assert_type(result.displays, tuple[Display, ...])
    assert_type(result.files, tuple[File, ...])
    assert_type(result.skipped, tuple[Skipped, ...])
    assert_type(result.exit_code, int | None)
    assert_type(result.isolation, Isolation)
    assert_type(result.isolation.gaps, tuple[str, ...])
    assert_type(result.to_json(), dict[str, Any])
    assert_type(result.text(), str)
    assert_type(to_notebook(result), dict[str, Any])
    assert_type(notebook_json([result, result]), bytes)
    assert_type(to_html([result], title="Two runs"), str)

    assert_type(result.variables, Variables)
    assert_type(result.variables["x"], Variable)
    assert_type(result.variables[0].shape, tuple[int, ...] | None)
    assert_type(result.variables[1:], tuple[Variable, ...])
    assert_type([variable.name for variable in result.variables], list[str])
    assert_type(result.variables.names, tuple[str, ...])

    result.variables[1.5]  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue, reportArgumentType]
    result.status = "ok"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    Display(mime="text/plain", data="", group="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def as_a_tool() -> None:
    smaller = code_interpreter(memory="256MiB", session="call", cache=60)
    assert_type(smaller.name, str)
    assert_type(smaller(timeout=5).name, str)
    async with Runtime([code_interpreter, smaller(name="py")], store="memory://") as rt:
        assert_type((await rt.call("code_interpreter", {"task": "1"})).success, bool)


@tool
async def report(ctx: ToolContext) -> str:
    name = await ctx.put_artifact(b"whole")
    assert_type(name, str)
    await ctx.put_artifact([b"in ", b"pieces"])
    assert_type(await ctx.artifact(name), bytes)
    assert_type(await ctx.artifact(name, start=1, end=3), bytes)
    assert_type(ctx.caller, str)
    await ctx.put_artifact("text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ctx.checkpoint("step", b"bytes")
    assert_type(await ctx.checkpoints(), dict[str, bytes])
    await ctx.checkpoint("step", "text")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await ctx.artifact(name, end="3")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    return name


async def processes() -> None:
    sandbox = Sandbox(require=LEVELS[-1], limits=Limits(memory=size_of("1GiB", "memory")), readable=[Path("/srv/data")])
    try:
        process = await sandbox.start("clicket.interpreter.inside.command_loop", {"preload": []})
    except NotIsolated as error:
        assert_type(error.code, str)
        return
    except SandboxFailed:
        return
    assert_type(process, SandboxProcess)
    assert_type(process.isolation.level, str)
    assert_type(process.work, Path)
    process.interrupt()
    process.kill()
    ended = await process.exited
    assert_type(ended, Exit)
    assert_type(ended.signal, int | None)
    assert_type(ended.memory, bool)
    await process.close()
    await sandbox.close()
    Limits(memory="1GiB")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Sandbox("full")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
