"""Uploads and downloads: whole, in ranges, in bounded memory, and only for the callers that own them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from tests.scenarios.server_kit import key_for, served

CONTENT = bytes(range(256)) * 4_000  # about a megabyte


async def test_up_and_down(store: str) -> None:
    async with served(store=store) as it:
        answer = await it.post("/artifacts", content=CONTENT)
        name = f"sha256-{hashlib.sha256(CONTENT).hexdigest()}"
        assert answer.status_code == 201
        assert answer.json() == {"id": name, "size": len(CONTENT)}
        got = await it.get(answer.headers["location"])
        assert got.content == CONTENT
        assert got.headers["content-type"] == "application/octet-stream"
        assert got.headers["content-disposition"] == "attachment"
        assert got.headers["x-content-type-options"] == "nosniff"
        assert (await it.post("/artifacts", content=CONTENT)).json()["id"] == name
        empty = (await it.post("/artifacts")).json()
        assert empty["size"] == 0
        assert (await it.get(f"/artifacts/{empty['id']}")).content == b""


@pytest.mark.parametrize(
    ("wanted", "start", "end"),
    [
        ("bytes=0-9", 0, 10),
        ("bytes=10-", 10, None),
        ("bytes=-10", -10, None),
        ("bytes=300000-700000", 300_000, 700_001),
        ("bytes=1000000-99999999", 1_000_000, None),
        ("Bytes=5-5", 5, 6),
    ],
)
async def test_a_range(wanted: str, start: int, end: int | None, store: str) -> None:
    async with served(store=store) as it:
        name = (await it.post("/artifacts", content=CONTENT)).json()["id"]
        answer = await it.get(f"/artifacts/{name}", headers={"range": wanted})
        assert answer.status_code == 206
        assert answer.content == CONTENT[start:end]
        first = start % len(CONTENT)
        assert answer.headers["content-range"] == f"bytes {first}-{first + len(answer.content) - 1}/{len(CONTENT)}"


@pytest.mark.parametrize(
    "wanted", ["bytes=", "bytes=-", "bytes=5-1", "bytes=a-b", "lines=1-2", "bytes=0-1,3-4", "bytes=0-0," * 20_000]
)
async def test_what_is_no_single_range_is_the_whole(wanted: str) -> None:
    async with served(options={"max_header_size": 1_000_000}) as it:
        name = (await it.post("/artifacts", content=b"0123456789")).json()["id"]
        answer = await it.get(f"/artifacts/{name}", headers={"range": wanted})
        assert answer.status_code == 200
        assert answer.content == b"0123456789"


async def test_ranges_that_are_not_there() -> None:
    async with served() as it:
        name = (await it.post("/artifacts", content=b"0123456789")).json()["id"]
        for wanted in ("bytes=10-", "bytes=99-100", "bytes=-0"):
            answer = await it.get(f"/artifacts/{name}", headers={"range": wanted})
            assert answer.status_code == 416
            assert answer.headers["content-range"] == "bytes */10"


@pytest.mark.parametrize(
    "name",
    ["x", "sha256-" + "0" * 64, "..%2f..%2fetc%2fpasswd", "%2e%2e", "sha256-" + "0" * 63 + "%00", "sha256-" + "A" * 64],
)
async def test_names_that_are_none(name: str, store: str) -> None:
    async with served(store=store) as it:
        assert (await it.get(f"/artifacts/{name}")).status_code == 404


@pytest.mark.parametrize(
    "output", ["text", {"a": [1, 2]}, "x" * 5_000, ["y" * 100] * 100], ids=["text", "json", "long", "long json"]
)
async def test_the_whole_result_and_its_ranges(output: Any, store: str) -> None:
    from clicket import tool

    @tool(max_result_size=1_000)
    async def give() -> Any:
        return output

    async with served([give], store) as it:
        made = (await it.call("give")).json()
        url = f"/calls/{made['call_id']}/result"
        whole = await it.get(url)
        assert (whole.text if isinstance(output, str) else whole.json()) == output
        assert whole.headers["content-type"].startswith("text/plain" if isinstance(output, str) else "application/json")
        part = await it.get(url, headers={"range": "bytes=1-3"})
        assert part.status_code == 206
        assert part.content == whole.content[1:4]
        assert made["truncated"] is (len(whole.content) > 1_000)
        if made["truncated"]:
            assert made["output"] is None
            assert (await it.get(f"/artifacts/{made['artifact']}")).content == whole.content


async def test_an_artifact_is_only_for_its_caller(store: str) -> None:
    async with served(store=store) as it:
        a, b = await key_for(it, "a", "read", "call"), await key_for(it, "b", "read", "call")
        name = (await it.post("/artifacts", content=b"same", headers=a)).json()["id"]
        assert (await it.get(f"/artifacts/{name}", headers=b)).status_code == 404
        await it.post("/artifacts", content=b"same", headers=b)
        assert (await it.get(f"/artifacts/{name}", headers=b)).content == b"same"
        # A call that was never read over HTTP: its owner may still read its artifact.
        handle = await it.runtime.acting_for(a["authorization"].split("_")[1]).submit("long", {"letter": "z"})
        result = await handle.result()
        assert (await it.get(f"/artifacts/{result.artifact}", headers=b)).status_code == 404
        await it.get(f"/calls/{handle.id}", headers=a)
        assert (await it.get(f"/artifacts/{result.artifact}", headers=a)).text == "z" * 5_000
