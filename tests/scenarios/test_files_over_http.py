"""Images and files in messages over HTTP, in the client, at the terminal, over AG-UI and A2A, and in results over MCP."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from tests.kit.pictures import png
from tests.scenarios.agent_server_kit import served_agent

from clicket import File, Image, Runtime, tool
from clicket.agents import ReActAgent
from clicket.client import Client, RemoteTools
from clicket.errors import UsageError
from clicket.model.codec import encode
from clicket.testing import ScriptedModel


@tool
async def plot() -> list[str | Image]:
    return ["a plot:", Image(png(9), name="plot.png")]


async def uploaded(it: Any, data: bytes) -> str:
    answered = await it.post("/artifacts", content=data, headers={"content-type": "application/octet-stream"})
    return str(answered.json()["id"])


async def test_a_message_names_uploaded_files(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["I read a line."]) as it:
        name = await uploaded(it, png())
        message = ["what is this?", {"artifact": name, "name": "photo.png"}]
        body = (await it.post("/agents/t/messages", json={"message": message, "wait": True})).json()
        (ref,) = body["messages"][0]["files"]
        assert ref == {
            "artifact": name, "media_type": "image/png", "size": len(png()), "name": "photo.png", "width": 4, "height": 3,
        }  # fmt: skip
        assert body["messages"][0]["content"].startswith("what is this?\n[image photo.png, image/png, 4x3")
        assert (await it.get(f"/artifacts/{name}")).content == png()


@pytest.mark.parametrize(
    "message",
    [
        [],
        [""],
        [5],
        [{"artifact": "sha256-" + "0" * 64}],
        [{"artifact": "/etc/passwd"}],
        [{"artifact": "sha256-" + "0" * 64, "path": "/etc/passwd"}],
        [{"artifact": "sha256-" + "0" * 64}] * 40,
    ],
)
async def test_a_message_that_is_none_is_refused(tmp_path: Path, message: Any) -> None:
    async with served_agent(tmp_path, ["Never."]) as it:
        answered = await it.post("/agents/t/messages", json={"message": message, "wait": True})
        assert answered.status_code == 422
        assert (await it.get("/agents/t/messages")).json()["turns"] == []


async def test_a_key_cannot_send_the_file_of_another(tmp_path: Path) -> None:
    keys = {"api_keys": ["ann:read+call:ann-secret-0123456789", "bob:read+call:bob-secret-0123456789"]}
    async with served_agent(tmp_path, ["Read."], **keys) as it:
        ann, bob = ({"authorization": f"Bearer {name}-secret-0123456789"} for name in ("ann", "bob"))
        headers = {"content-type": "application/octet-stream", **ann}
        name = (await it.post("/artifacts", content=png(), headers=headers)).json()["id"]
        message = {"message": [{"artifact": name}], "wait": True}
        assert (await it.post("/agents/t/messages", json=message, headers=bob)).status_code == 422
        assert (await it.post("/agents/t/messages", json=message, headers=ann)).status_code == 200


async def test_the_client_uploads_the_files_of_a_message(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    async with served_agent(tmp_path, ["One.", "Two.", "Three."]) as it, Client(it.url) as client:
        agent = client.agent()
        message = ["look:", Image(png()), File(tmp_path / "notes.txt")]
        result = await agent.run(message, thread="t", id="once")
        picture, notes = result.messages[0].files
        assert (notes.name, notes.media_type) == ("notes.txt", "text/plain")
        assert await client.artifact(picture.artifact) == png()
        assert (await agent.run(message, thread="t", id="once")).turn == result.turn
        events = [event async for event in agent.stream(Image(png(7)), thread="t")]
        assert next(event.data["files"] for event in events if event.type == "message")[0]["width"] == 7
        for wrong in (5, ["a", 5], b"bytes"):
            with pytest.raises(UsageError, match="message"):
                await agent.run(wrong)  # type: ignore[arg-type]


async def test_a_message_for_the_queue_has_files_too(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["One."]) as it, Client(it.url) as client:
        sent = await client.agent().send(["?", Image(png(6))], thread="q", id="a")
        assert sent.turn == 1
        result = await client.agent().run(["?", Image(png(6))], thread="q", id="a")
        assert (result.turn, result.messages[0].files[0].width) == (1, 6)


async def test_results_have_their_files_in_the_client(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["-"], tools=[plot]) as it, Client(it.url) as client:
        result = await client.call("plot")
        (ref,) = result.files
        assert await client.artifact(ref.artifact) == png(9)
        assert (await client.get(result.id)).files == result.files


async def test_ag_ui_takes_files_as_data(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["Read."]) as it:
        image = {
            "type": "image",
            "source": {"type": "data", "value": b64encode(png()).decode(), "mimeType": "image/png"},
        }

        async def run(*content: Any) -> Any:
            message = {"id": "m", "role": "user", "content": list(content)}
            body = {"threadId": "t", "runId": f"r{len(content)}{encode(content)[-9:]!r}", "messages": [message]}
            return await it.post("/ag-ui/helper", json=body)

        assert (await run({"type": "text", "text": "?"}, image)).status_code == 200
        (turn,) = (await it.get("/agents/t/messages")).json()["turns"]
        assert turn["messages"][0]["files"][0]["media_type"] == "image/png"
        assert "IHDR" not in str(turn)
        for source in ({"type": "url", "value": "http://example.org/a.png"}, {"type": "data", "value": "§"}):
            assert (await run({"type": "image", "source": source})).status_code == 422


async def test_a2a_takes_files_as_bytes(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["Read."]) as it:

        async def send(*parts: Any) -> Any:
            message = {
                "messageId": f"m{len(encode(parts))}",
                "role": "ROLE_USER",
                "contextId": "t",
                "parts": list(parts),
            }
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
            return (await it.post("/a2a/helper", json=body, headers={"a2a-version": "1.0"})).json()

        raw = b64encode(png()).decode()
        done = await send({"text": "?"}, {"raw": raw, "mediaType": "image/png", "filename": "photo.png"})
        assert done["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        (turn,) = (await it.get("/agents/t/messages")).json()["turns"]
        assert turn["messages"][0]["files"][0]["name"] == "photo.png"
        assert "error" in await send({"url": "http://example.org/a.png"})
        assert "error" in await send({"raw": "§§"})
        card = (await it.get("/a2a/helper/.well-known/agent-card.json")).json()
        assert "image/png" in card["defaultInputModes"]


async def test_a_plot_of_the_interpreter_is_seen_by_the_model() -> None:
    from clicket.interpreter import code_interpreter

    picture = b64encode(png()).decode()
    code = (
        "import base64\n"
        f"class Plot:\n    def _repr_png_(self):\n        return base64.b64decode('{picture}')\n"
        "class Fake:\n    def _repr_png_(self):\n        return b'no picture'\n"
        "display(Plot())\ndisplay(Fake())"
    )
    tools = [code_interpreter(require="none", warm=False)]
    async with Runtime(tools=tools, store="memory://") as rt:
        model = ScriptedModel([[("code_interpreter", {"task": code})], "Black."], sees_images=True)
        result = await ReActAgent(rt, model).run("plot")
        assert list(model.requests[1].files.values()) == [png()]
        shown = result.messages[-2]
        assert shown.files[0].name == "figure-1"
        assert picture not in shown.content, "the model does not read the bytes as text, too"


async def test_a_tool_of_a_server_brings_its_files_along(tmp_path: Path) -> None:
    async with served_agent(tmp_path, ["-"], tools=[plot]) as it, Runtime(store="memory://") as rt:
        far = RemoteTools(it.url)
        await far.join(rt)
        result = await rt.call("plot")
        (ref,) = result.files
        assert await rt.artifact(ref.artifact) == png(9)
        assert result.content == f"a plot:\n{ref.line}"
        await far.close()
