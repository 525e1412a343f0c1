"""Tools return images and files: they are kept as artifacts of the call, and references stand in their places."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.pictures import png

from clicket import File, Image, Runtime, tool
from clicket.errors import NotFound
from clicket.model.codec import encode


@tool
async def plot() -> Image:
    return Image(png(), name="plot.png")


@tool
def plots() -> list[str | File]:
    return ["a plot:", Image(png()), "and its data:", File(b"x,y\n1,2\n", name="data.csv")]


@tool(isolation="process")
def far(folder: str) -> dict[str, Any]:
    path = Path(folder) / "far.png"
    path.write_bytes(png(7, 7))
    return {"n": 1, "token": {"clicket.file": ["0", 0]}, "picture": Image(path)}


@tool
def of(name: str) -> Image:
    return Image(name)


@tool
def many(count: int) -> list[File]:
    return [File(b"%d" % number) for number in range(count)]


@tool(max_result_size=600)
def long() -> list[str | File]:
    return ["word " * 1_000, Image(png())]


@tool(cache=True, read_only=True)
def cached() -> Image:
    return Image(png())


@tool
async def streamed() -> AsyncIterator[Image]:
    yield Image(png())


TOOLS = [plot, plots, far, of, many, long, cached]


async def test_an_image_becomes_an_artifact_and_a_line() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        result = await rt.call("plot")
        (ref,) = result.files
        assert await rt.artifact(ref.artifact) == png()
        assert result.output == {
            "artifact": ref.artifact, "media_type": "image/png", "size": len(png()), "name": "plot.png", "width": 4, "height": 3,
        }  # fmt: skip
        assert result.content == ref.line
        record = await rt.get(result.id)
        assert (record.content, record.files, record.output) == (result.content, result.files, result.output)
        assert b"IHDR" not in encode(record)


async def test_texts_and_files_keep_their_order() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        result = await rt.call("plots")
        picture, data = result.files
        assert result.content == f"a plot:\n{picture.line}\nand its data:\n{data.line}"
        assert data.media_type == "text/csv"


async def test_a_process_reads_its_own_paths_and_its_data_cannot_pose_as_a_file(tmp_path: Path) -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        result = await rt.call("far", {"folder": str(tmp_path)})
        (ref,) = result.files
        assert await rt.artifact(ref.artifact) == png(7, 7)
        assert result.output["token"] == {"clicket.file": ["0", 0]}
        assert result.output["picture"]["name"] == "far.png"


async def test_a_caller_cannot_show_the_artifact_of_another() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        ann, bob = rt.acting_for("ann"), rt.acting_for("bob")
        name = (await ann.call("plot")).files[0].artifact
        assert (await ann.call("of", {"name": name})).files[0].artifact == name
        refused = await bob.call("of", {"name": name})
        assert refused.error is not None
        assert refused.error.code == "result_unserializable"
        assert "there is no artifact" in refused.content
        with pytest.raises(NotFound):
            await bob.artifact(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [("/not/there.png", "cannot be read"), (__file__, "not an image"), ("sha256-" + "0" * 64, "no artifact")],
)
async def test_a_file_that_is_none_fails_the_call_and_says_why(name: str, why: str) -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        result = await rt.call("of", {"name": name})
        assert result.error is not None
        assert result.error.code == "result_unserializable"
        assert why in result.error.message


async def test_too_many_files_are_refused() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        assert len((await rt.call("many", {"count": 32})).files) == 32
        assert "at most 32" in (await rt.call("many", {"count": 33})).content


async def test_a_text_that_is_cut_keeps_the_line_of_its_image() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        result = await rt.call("long")
        assert result.truncated
        assert len(result.content.encode()) <= 600
        assert result.content.endswith(result.files[0].line)
        assert (await rt.get(result.id)).content == result.content


async def test_a_result_with_files_does_not_serve_equal_calls_because_they_go_with_its_call() -> None:
    async with Runtime(tools=TOOLS, store="memory://") as rt:
        assert not (await rt.call("cached")).cached
        assert not (await rt.call("cached")).cached


async def test_a_streamed_file_is_refused() -> None:
    async with Runtime(tools=[streamed], store="memory://") as rt:
        result = await rt.call("streamed")
        assert result.error is not None
        assert "kept only as a part of what a tool returns" in result.error.message


async def test_files_live_as_long_as_their_call(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'calls.db'}"
    async with Runtime(tools=TOOLS, store=url) as rt:
        call = await rt.call("plot")
    async with Runtime(tools=TOOLS, store=url) as rt:
        assert await rt.artifact((await rt.get(call.id)).files[0].artifact) == png()
