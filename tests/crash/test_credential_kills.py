"""A kill at each write of a connection by link and of a refresh: nothing is used twice in silence, and a call that waits is never lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.crash.credential_scene import CALL, PUBLIC, Scene, answer_to, book_over, connect, refresh, runtime_of
from tests.crash.nest import Nest
from tests.crash.settle import Place, read_lines
from tests.crash.stores import Fresh, Row
from tests.kit.authorization_server import AuthorizationServer
from tests.kit.waiting import PATIENCE
from tests.scenarios.kit import assert_sound

from clicket import Runtime
from clicket.errors import CredentialMissing
from clicket.safety.credentials import ConnectRefused

Served = tuple[Row, Fresh]
_MOST = 20
SQLITE = pytest.mark.parametrize("served", ["sqlite"], indirect=True)
OTHERS = pytest.mark.parametrize("served", ["redis", "postgres"], indirect=True)


@pytest.fixture(scope="module")
def bank() -> Iterator[AuthorizationServer]:
    with AuthorizationServer() as server:
        server.control(callback=f"{PUBLIC}/connect/callback", user="ann")
        yield server


def scenes(bank: AuthorizationServer, served: Served, tmp_path: Path, side: str) -> Iterator[Scene]:
    row, fresh = served
    for nth in range(1, _MOST):
        folder = tmp_path / f"{side}{nth}"
        folder.mkdir(parents=True)
        place = Place(store=fresh(folder), folder=str(folder), durability=row.durability)
        yield Scene(place=place, provider=bank.provider(), nth=nth, side=side)


async def connect_again(rt: Runtime) -> None:
    connecting = rt.engine.connecting
    started = await connecting.start((await rt.credentials.link("bank")).url.rpartition("/")[2])
    await connecting.finish(answer_to(started.url), {started.cookie_name: started.cookie})


async def load_again(rt: Runtime, bank: AuthorizationServer, query: dict[str, str], cookies: dict[str, str]) -> None:
    """Nothing had come of it, and it works now; or it was used, and its code is not sent again."""
    codes, why = bank.stats()["codes"], ""
    try:
        await rt.engine.connecting.finish(query, cookies)
    except ConnectRefused as error:
        why = error.why
    assert why in ("", "used")
    assert not why or bank.stats()["codes"] == codes


async def connections(nest: Nest, bank: AuthorizationServer, served: Served, tmp_path: Path) -> None:
    waited = connected = 0
    before = bank.stats()
    for side in ("before", "after"):
        for scene in scenes(bank, served, tmp_path, side):
            ending = await nest.raise_child(connect, msgspec.to_builtins(scene))
            assert not ending.hung
            folder = Path(scene.place.folder)
            async with runtime_of(scene) as rt, asyncio.timeout(PATIENCE):
                for query, cookies in read_lines(folder / "callback", tuple[dict[str, str], dict[str, str]]):
                    # The browser loads the page again, because the first time it got no answer.
                    await load_again(rt, bank, query, cookies)
                there = bool(await rt.credentials.list())
                if read_lines(folder / "connected", bool):
                    assert there, "what was acknowledged is not lost"
                if not there:
                    waited += 1
                    assert (await rt.get(CALL)).waiting_for == "credential", "the call still says what it waits for"
                    await connect_again(rt)
                else:
                    connected += 1
                result = await (await rt.handle(CALL)).result()
                assert result.output == "access-"
                assert_sound(await rt.get(CALL))
            if not ending.signal:
                break
        else:
            raise AssertionError("it did not end")
    assert waited
    assert connected
    after = bank.stats()
    assert after["code_replays"] == before["code_replays"], "no code was sent twice"


async def refreshes(nest: Nest, bank: AuthorizationServer, served: Served, tmp_path: Path) -> None:
    outcomes = set()
    for side in ("before", "after"):
        for scene in scenes(bank, served, tmp_path, side):
            await _with_a_token_that_has_ended(bank, scene)
            before = bank.stats()
            ending = await nest.raise_child(refresh, msgspec.to_builtins(scene))
            assert not ending.hung
            acknowledged = read_lines(Path(scene.place.folder, "refreshed"), str)
            book, store, audited = await book_over(scene, later=True)
            try:
                held = (await book.token("ann", "bank")).token
                outcomes.add("kept")
                assert acknowledged in ([], [held]), "a token that was used is the one on record"
            except CredentialMissing:
                outcomes.add("expired")
                assert not acknowledged
            finally:
                await book.close()
                await store.close()
            replayed = bank.stats()["refresh_replays"] - before["refresh_replays"]
            assert replayed <= 1
            assert ("credential.refresh_repeated" in audited) >= bool(replayed), "a second use is never silent"
            if not ending.signal:
                break
        else:
            raise AssertionError("it did not end")
    assert outcomes == {"kept", "expired"}


async def _with_a_token_that_has_ended(bank: AuthorizationServer, scene: Scene) -> None:
    book, store, _ = await book_over(msgspec.structs.replace(scene, nth=0))
    provider = book.provider("bank")
    url = await book.oauth.authorization(provider, "state", "v" * 50)
    known = await book.oauth.endpoints(provider)
    at = await book.oauth.token_endpoint(provider, issuer=known.issuer, token_url=known.token_url)
    granted = await book.oauth.redeem(at, answer_to(url)["code"], "v" * 50)
    await book.connect("ann", provider, msgspec.structs.replace(granted, expires_in=1e-6))
    await book.close()
    await store.close()


@SQLITE
async def test_kills_of_a_connection(nest: Nest, bank: AuthorizationServer, served: Served, tmp_path: Path) -> None:
    await connections(nest, bank, served, tmp_path)


@SQLITE
async def test_kills_of_a_refresh(nest: Nest, bank: AuthorizationServer, served: Served, tmp_path: Path) -> None:
    await refreshes(nest, bank, served, tmp_path)


@pytest.mark.slow
@OTHERS
async def test_kills_on_every_store(nest: Nest, bank: AuthorizationServer, served: Served, tmp_path: Path) -> None:
    await connections(nest, bank, served, tmp_path / "connections")
    await refreshes(nest, bank, served, tmp_path / "refreshes")
