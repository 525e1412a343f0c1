"""Images and files in requests to both vendors, as their SDKs send them and their rules take them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.kit.pictures import png
from tests.models_kit.aimock import Aimock, answer, failure, serving
from tests.models_kit.transcripts import anthropic_model, openai_model
from tests.models_kit.vendor_rules import accepted

from clicket.errors import RetryableError
from clicket.model.chat import ChatMessage, ChatRequest, ToolOffer, ToolUse
from clicket.model.files import FileRef
from clicket.models import Fallback, SchemaTools
from clicket.testing import ScriptedModel, StepClock

PHOTO = FileRef(artifact="sha256-" + "1" * 64, media_type="image/png", size=69, name="photo.png", width=4, height=3)
PLOT = FileRef(artifact="sha256-" + "2" * 64, media_type="image/png", size=69)
PAPER = FileRef(artifact="sha256-" + "3" * 64, media_type="application/pdf", size=8, name="paper.pdf")
NOTES = FileRef(artifact="sha256-" + "4" * 64, media_type="text/csv", size=4, name="notes.csv")
FILES = {PHOTO.artifact: png(), PLOT.artifact: png(7), PAPER.artifact: b"%PDF-1.7", NOTES.artifact: b"a,b\n"}
ASKED = ChatMessage(
    role="user", content=f"What is\n{PHOTO.line}\nand\n{PAPER.line}\n{NOTES.line}", files=(PHOTO, PAPER, NOTES)
)
USES = (ToolUse(id="c1", name="plot"), ToolUse(id="c2", name="plot"))
MESSAGES = (
    ASKED,
    ChatMessage(role="assistant", uses=USES),
    ChatMessage(role="tool", use_id="c1", content=f"a plot:\n{PLOT.line}\nof it", files=(PLOT,)),
    ChatMessage(role="tool", use_id="c2", content="none"),
)
TOOLS = (ToolOffer(name="plot"),)
REQUEST = ChatRequest(messages=MESSAGES, tools=TOOLS, files=FILES, max_tokens=50)


@pytest.fixture(scope="module")
def server() -> Iterator[Aimock]:
    with serving() as made:
        yield made


@pytest.fixture
async def openai(server: Aimock) -> AsyncIterator[Any]:
    model = openai_model(server)
    yield model
    await model.close()


@pytest.fixture
async def anthropic(server: Aimock) -> AsyncIterator[Any]:
    model = anthropic_model(server)
    yield model
    await model.close()


@pytest.fixture(params=[openai_model, anthropic_model], ids=["openai", "anthropic"])
async def model(request: pytest.FixtureRequest, server: Aimock) -> AsyncIterator[Any]:
    made = request.param(server)
    yield made
    await made.close()


def shape(blocks: Any) -> Any:
    return blocks if isinstance(blocks, str) else [block.get("text") or block["type"] for block in blocks]


async def test_anthropic_has_them_in_messages_and_in_results(server: Aimock, anthropic: Any) -> None:
    assert anthropic.sees_images
    server.script(answer("Seen."))
    assert (await anthropic.chat(REQUEST)).text == "Seen."
    (sent,) = server.asked
    accepted(sent.path, sent.body)
    user, _, results = sent.body["messages"]
    assert shape(user["content"]) == [
        f"What is\n{PHOTO.line}", "image", f"\nand\n{PAPER.line}", "document", f"\n{NOTES.line}", "document",
    ]  # fmt: skip
    image, paper, notes = (block for block in user["content"] if block["type"] != "text")
    assert image["source"]["media_type"] == "image/png"
    assert b64decode(image["source"]["data"]) == png()
    assert paper["source"]["media_type"] == "application/pdf"
    assert paper["title"] == "paper.pdf"
    assert notes["source"] == {"type": "text", "media_type": "text/plain", "data": "a,b"}
    first, second = results["content"]
    assert shape(first["content"]) == [f"a plot:\n{PLOT.line}", "image", "\nof it"]
    assert b64decode(first["content"][1]["source"]["data"]) == png(7)
    assert second["content"] == "none"


async def test_chat_completions_have_those_of_results_in_a_message_after_the_results(
    server: Aimock, openai: Any
) -> None:
    assert openai.sees_images
    server.script(answer("Seen."))
    assert (await openai.chat(REQUEST)).text == "Seen."
    (sent,) = server.asked
    accepted(sent.path, sent.body)
    user, _, first, second, beside = sent.body["messages"]
    assert shape(user["content"]) == [
        f"What is\n{PHOTO.line}", "image_url", f"\nand\n{PAPER.line}", "file", f"\n{NOTES.line}", "a,b",
    ]  # fmt: skip
    kind, _, data = user["content"][1]["image_url"]["url"].partition(";base64,")
    assert (kind, b64decode(data)) == ("data:image/png", png())
    assert user["content"][3]["file"]["filename"] == "paper.pdf"
    assert (first["role"], first["content"]) == ("tool", MESSAGES[2].content)
    assert (second["role"], second["content"]) == ("tool", "none")
    assert beside["role"] == "user"
    assert shape(beside["content"])[1:] == [PLOT.line, "image_url"]
    assert b64decode(beside["content"][2]["image_url"]["url"].partition(",")[2]) == png(7)


async def test_without_their_bytes_there_are_only_lines(server: Aimock, model: Any) -> None:
    server.script(answer("Read."))
    await model.chat(ChatRequest(messages=MESSAGES, tools=TOOLS, max_tokens=50))
    (sent,) = server.asked
    accepted(sent.path, sent.body)
    content = sent.body["messages"][0]["content"]
    assert content in (ASKED.content, [{"type": "text", "text": ASKED.content, "cache_control": {"type": "ephemeral"}}])


async def test_a_refused_image_does_not_block_the_thread(
    server: Aimock, model: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refused = failure(400, "Could not process image")
    server.script(refused, answer("Read."), answer("Seen."))
    assert (await model.chat(REQUEST)).text == "Read."
    assert "sees_images = False" in caplog.text
    again = server.asked[1].body
    accepted(server.asked[1].path, again)
    assert "not shown: the model's server refused it" in str(again)
    assert "base64" not in str(again)
    # It says nothing about other images.
    await model.chat(REQUEST)
    assert "base64" in str(server.asked[2].body)


async def test_another_refusal_is_not_blamed_on_images(server: Aimock, openai: Any) -> None:
    server.script(failure(400, "temperature is too high"))
    with pytest.raises(Exception, match="temperature"):
        await openai.chat(REQUEST)
    assert len(server.asked) == 1


async def test_a_model_without_tools_sees_them_too(server: Aimock, openai: Any) -> None:
    plain = SchemaTools(openai)
    assert plain.sees_images
    server.script(answer('{"answer": "Seen."}'))
    assert (await plain.chat(REQUEST)).text == "Seen."
    (sent,) = server.asked
    accepted(sent.path, sent.body)
    assert str(sent.body).count("'type': 'image_url'") == 2


async def test_of_a_chain_each_model_gets_what_it_can_see() -> None:
    blind, seeing = ScriptedModel([RetryableError("down")]), ScriptedModel(["Seen."], sees_images=True)
    chain = Fallback(blind, seeing, clock=StepClock())
    assert chain.sees_images
    assert not Fallback(blind, ScriptedModel([])).sees_images
    assert (await chain.chat(REQUEST)).text == "Seen."
    assert blind.requests[0].files == {}
    assert "not shown: this model reads only text" in blind.requests[0].messages[0].content
    assert seeing.requests[0].files == FILES


async def test_a_model_that_is_said_not_to_see_gets_lines(server: Aimock, model: Any) -> None:
    model.sees_images = False
    server.script(answer("Read."))
    await model.chat(REQUEST)
    assert "not shown: this model reads only text" in str(server.asked[0].body)
    assert "base64" not in str(server.asked[0].body)
