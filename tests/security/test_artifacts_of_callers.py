"""An artifact is named by its hash, so its name is not a secret. A caller reads what it uploaded and what its calls
stored, nothing else, whatever it writes into its requests, and whatever its tools write into their journal."""

from __future__ import annotations

from typing import Any

import pytest
from tests.scenarios.kit import make
from tests.scenarios.server_kit import TOOLS, key_for, served

from clicket import ToolContext, tool
from clicket.engine.executors import ARTIFACT_ACCESS, may_read
from clicket.errors import NotFound

LARGE = b"work of one caller " * 1_000


@tool
async def works(ctx: ToolContext) -> str:
    """Keep a checkpoint that is too large for an event."""
    await ctx.checkpoint("part", LARGE)
    return "done"


@tool
async def remarks(artifact: str, ctx: ToolContext) -> str:
    """Put names that came with the arguments into the journal."""
    ctx.note("saved", artifact=artifact)
    await ctx.drain()
    ctx.note("kept", reason="checkpoint", key="part", artifact=artifact, size=len(LARGE))
    await ctx.drain()
    ctx.emit({"artifact": artifact})
    return b"".join([*(await ctx.checkpoints()).values()]).decode()


@tool(max_result_size=1_000)
async def floods(ctx: ToolContext, of: str = "x") -> str:
    """More output than the journal takes, and a short result."""
    for _ in range(1_100):
        ctx.emit(of)
    return "done"


async def checkpoint_of(runtime: Any) -> str:
    record = await runtime.get((await runtime.call("works")).call_id)
    return str(next(event.data["artifact"] for event in record.events if "artifact" in event.data))


async def readable(runtime: Any, name: str) -> list[str]:
    """The callers that may read an artifact."""
    found = [document.key.rpartition("/") for document in await runtime.store.documents(ARTIFACT_ACCESS)]
    return [caller for caller, _, may_read in found if may_read == name]


async def test_metadata_of_a_request_grants_nothing() -> None:
    async with served([*TOOLS, works]) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        private = (await it.call("long", {"letter": "p"}, headers=a)).json()["artifact"]
        upload = (await it.post("/artifacts", content=b"private", headers=a)).json()["id"]
        for name in (private, upload, await checkpoint_of(it.runtime)):
            claimed = {"stream_artifact": name, "artifact": name, "artifact_type": "json"}
            for body in ({"wait": True}, {"wait": False}):
                made = (await it.call("long", {}, metadata=claimed, headers=b, **body)).json()
                id = made.get("call_id") or made["id"]
                await (await it.runtime.handle(id)).result()
                shown = await it.get(f"/calls/{id}", headers=b)
                assert shown.status_code == 200
                assert (await it.get(f"/calls/{id}/events", headers=b)).status_code == 200
                whole = await it.get(f"/calls/{id}/result", headers=b)
                assert (whole.text, whole.headers["content-type"]) == ("x" * 5000, "text/plain; charset=utf-8")
                assert (await it.get(f"/artifacts/{name}", headers=b)).status_code == 404


async def test_what_a_tool_remarks_grants_nothing() -> None:
    async with served([*TOOLS, works, remarks]) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        private = (await it.call("long", {"letter": "p"}, headers=a)).json()["artifact"]
        for name in (private, await checkpoint_of(it.runtime)):
            made = (await it.call("remarks", {"artifact": name}, headers=b)).json()
            assert (made["state"], made["content"]) == ("completed", "")
            await it.get(f"/calls/{made['call_id']}", headers=b)
            assert (await it.get(f"/artifacts/{name}", headers=b)).status_code == 404


async def test_a_checkpoint_is_for_its_tool_alone() -> None:
    async with served([works]) as it:
        a = await key_for(it, "a", "read", "call")
        made = (await it.call("works", {}, headers=a)).json()
        record = (await it.get(f"/calls/{made['call_id']}", headers=a)).json()
        name = next(event["data"]["artifact"] for event in record["events"] if "artifact" in event["data"])
        assert await readable(it.runtime, name) == []
        assert (await it.get(f"/artifacts/{name}", headers=a)).status_code == 404


async def test_a_call_that_no_server_runs_grants_its_caller_what_it_stored() -> None:
    async with make([*TOOLS, floods]) as rt:
        own, other = rt.acting_for("a"), rt.acting_for("b")
        whole = (await own.call("long", {})).artifact
        streamed = (await own.call("floods", {})).metadata["stream_artifact"]
        for name, content in ((whole, b"x" * 5000), (streamed, b"x" * 1100)):
            assert name is not None
            assert await may_read(rt.store, "a", name)
            assert await own.artifact(name) == content
            assert await rt.artifact(name) == content  # the program itself may read all artifacts
            with pytest.raises(NotFound):
                await other.artifact(name)


async def test_metadata_of_a_request_does_not_change_how_a_result_is_read() -> None:
    async with make(TOOLS) as rt:
        first = await rt.call("long", {}, id="one", metadata={"artifact_type": "json"})
        again = await (await rt.handle("one")).result()
        assert first.output == again.output == "x" * 5000
