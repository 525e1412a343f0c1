"""Rights to read artifacts exist exactly as long as their artifact."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.server_kit import Api, key_for, served

from clicket.ports import Keep
from clicket.server import artifact_access


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A right counts as old at once, so that a test need not wait an hour."""
    monkeypatch.setattr(artifact_access, "_MIN_AGE", -60.0)


async def on_record(it: Api) -> list[str]:
    return [document.key.rpartition("/")[2] for document in await it.runtime.store.documents(artifact_access.KIND)]


async def remove(it: Api, folder: Path, keep: Keep) -> None:
    """A sweep long after every file was written: SQLite's sweep spares recent files."""
    for path in folder.rglob("??/*"):
        if path.is_file():
            os.utime(path, (time.time() - 7_200,) * 2)
    await it.runtime.store.sweep(keep, 1_000)


async def test_grants_go_with_their_artifacts(store: str, tmp_path: Path) -> None:
    async with served(store=store, retention=3600) as it:
        key = await key_for(it, "a", "read", "call")
        made = (await it.call("long", {}, headers=key)).json()["artifact"]
        upload = (await it.post("/artifacts", content=b"mine", headers=key)).json()["id"]
        assert sorted(await on_record(it)) == sorted([made, upload])
        assert await it.parts.artifact_access.sweep() == 0, "both artifacts exist"
        await remove(it, tmp_path, Keep(since=time.time() + 60))  # the call is removed; the upload is pinned
        assert (await it.get(f"/artifacts/{made}", headers=key)).status_code == 404
        assert await it.parts.artifact_access.sweep() == 1
        assert await on_record(it) == [upload]
        assert (await it.get(f"/artifacts/{upload}", headers=key)).text == "mine"
        await remove(it, tmp_path, Keep(now=time.time() + 7_200))
        assert await it.parts.artifact_access.sweep() == 1, "its pin has ended"
        assert await on_record(it) == []


async def test_what_was_granted_lately_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_access, "_MIN_AGE", 60.0)
    async with served() as it:
        await it.parts.artifact_access.allow_reading("a", "sha256-00")
        assert await it.parts.artifact_access.sweep() == 0
        assert await on_record(it) == ["sha256-00"]


async def test_a_sweep_goes_on_where_the_last_one_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifact_access, "_SWEEP_PAGE", 3)
    async with served() as it:
        for number in range(7):
            await it.parts.artifact_access.allow_reading("a", f"sha256-{number}")
        assert [await it.parts.artifact_access.sweep() for _ in range(4)] == [3, 3, 1, 0]
        assert await on_record(it) == []


async def test_a_grant_is_written_again_when_it_is_not_trusted_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server may have swept it: the memory of this server must not replace the stored grant."""
    async with served() as it:
        key = await key_for(it, "a", "read", "call")
        name = (await it.post("/artifacts", content=b"mine", headers=key)).json()["id"]
        (document,) = await it.runtime.store.documents(artifact_access.KIND)
        await it.runtime.store.delete_document(artifact_access.KIND, document.key)
        monkeypatch.setattr(artifact_access, "_CACHED_FOR", 0.0)
        assert (await it.get(f"/artifacts/{name}", headers=key)).status_code == 404
        await it.post("/artifacts", content=b"mine", headers=key)
        assert (await it.get(f"/artifacts/{name}", headers=key)).status_code == 200


async def test_an_artifact_that_comes_back_during_the_sweep_stays_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served() as it:
        store, name = it.runtime.store, "sha256-" + "0" * 64
        await it.parts.artifact_access.allow_reading("a", name)
        delete = store.delete_document

        async def delete_late(*named: Any) -> bool:
            await store.put_artifact(name, [b"back"])
            return await delete(*named)

        monkeypatch.setattr(store, "delete_document", delete_late)
        assert await it.parts.artifact_access.sweep() == 0
        assert await on_record(it) == [name]
