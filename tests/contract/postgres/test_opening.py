"""Opening a store on a PostgreSQL server: schemas, roles, settings, replicas."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest
from tests.contract.postgres.kit import Make
from tests.postgres_server import PostgresServer, postgres_server

from clicket.errors import StoreUnavailable, UsageError
from clicket.stores.postgres import PostgresStore
from clicket.stores.postgres.schema import VERSION
from clicket.testing.store_kit import ALIVE, created, opened


async def test_many_may_open_a_new_store_at_once(make: Make, sql: Any) -> None:
    stores = [make() for _ in range(6)]
    await asyncio.gather(*(store.open(ALIVE) for store in stores))
    numbers = [row[0] for row in sql("SELECT number FROM clicket_migrations ORDER BY 1")]
    assert (numbers, numbers[-1]) == (sorted(set(numbers)), VERSION)
    assert len(await stores[0].owners()) == 6
    await asyncio.gather(*(store.close() for store in stores))
    assert sql("SELECT count(*) FROM owners") == [(0,)]


async def test_a_newer_schema_is_refused_and_left_alone(make: Make, sql: Any) -> None:
    async with opened(make):
        sql("INSERT INTO clicket_migrations (number, name) VALUES (99, 'future')")
    with pytest.raises(StoreUnavailable, match="newer clicket"):
        await make().open(ALIVE)
    assert sql("SELECT max(number) FROM clicket_migrations") == [(99,)]


async def test_a_schema_of_another_layout_is_refused_and_left_alone(make: Make, sql: Any) -> None:
    async with opened(make):
        sql("UPDATE clicket_migrations SET name = 'tables'")
    with pytest.raises(StoreUnavailable, match="in another way"):
        await make().open(ALIVE)
    assert sql("SELECT number, name FROM clicket_migrations") == [(1, "tables")]


async def test_a_foreign_schema_is_refused_and_left_alone(make: Make, sql: Any, schema: str) -> None:
    sql(f"CREATE SCHEMA {schema}; CREATE TABLE calls (mine text)")
    with pytest.raises(StoreUnavailable, match="another program"):
        await make().open(ALIVE)
    assert sql("SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace") == [(1,)]


async def test_a_schema_made_by_an_administrator_is_enough(server: PostgresServer, sql: Any, schema: str) -> None:
    sql(f"CREATE ROLE {schema} LOGIN; REVOKE CREATE ON DATABASE postgres FROM PUBLIC")
    store = PostgresStore(f"{server.url(user=schema)}?schema={schema}", timeout=30.0)
    with pytest.raises(StoreUnavailable, match="CREATE SCHEMA"):
        await store.open(ALIVE)
    sql(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    async with opened(lambda: store):
        await created(store, "a")


@pytest.mark.parametrize(
    "name", ["", "pg_catalog", "1st", 'a"; DROP SCHEMA public; --', "a b", "a.b", "ü", "x" * 64, "%00"]
)
def test_a_schema_must_have_a_plain_name(name: str) -> None:
    with pytest.raises(UsageError, match="schema"):
        PostgresStore(f"postgresql://localhost/db?schema={name}")


async def test_a_password_is_never_shown(server: PostgresServer) -> None:
    with socket.socket() as taken:  # bound and not listening: connections are refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        url = f"postgresql://joe:s3cret@127.0.0.1:{port}/db?password=s3cret&application_name=x"
        store = PostgresStore(url, timeout=0.3)
        assert store.url == f"postgresql://joe@127.0.0.1:{port}/db?application_name=x"
        with pytest.raises(StoreUnavailable, match="refused") as caught:
            await store.open(ALIVE)
    assert "s3cret" not in str(caught.value) + repr(caught.value.details)
    with pytest.raises(UsageError) as wrong:
        PostgresStore("postgresql://joe:s3cret%zz@host/db")
    assert "s3cret" not in str(wrong.value)


async def test_a_refused_login_says_what_to_do(server: PostgresServer, sql: Any) -> None:
    rules = server.folder / "data" / "pg_hba.conf"
    rules.write_text("host all guarded 127.0.0.1/32 scram-sha-256\n" + rules.read_text())
    sql("CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 'right'")
    sql("SELECT pg_reload_conf()")
    with pytest.raises(StoreUnavailable, match="Check user and password"):
        await PostgresStore(server.url(user="guarded", password="wrong")).open(ALIVE)
    with pytest.raises(StoreUnavailable, match="Create it first"):
        await PostgresStore(server.url("nowhere")).open(ALIVE)
    with pytest.raises(StoreUnavailable, match="unknown"):
        await PostgresStore("postgresql://no.such.host.invalid/db", timeout=0.3).open(ALIVE)
    async with opened(lambda: PostgresStore(server.url(user="guarded", password="right"), timeout=30.0)) as store:
        assert await store.owned() == []


async def test_a_host_may_have_a_name_and_several_may_be_tried(server: PostgresServer, schema: str) -> None:
    with socket.socket() as taken:  # bound and not listening
        taken.bind(("127.0.0.1", 0))
        places = f"127.0.0.1:{taken.getsockname()[1]},localhost:{server.port}"
        store = PostgresStore(f"postgresql://postgres@{places}/postgres?schema={schema}", timeout=30.0)
        async with opened(lambda: store):
            await created(store, "a")


async def test_a_database_that_cannot_be_written_is_refused(server: PostgresServer, sql: Any) -> None:
    sql("CREATE DATABASE shut")
    sql("ALTER DATABASE shut SET default_transaction_read_only = on")
    with pytest.raises(StoreUnavailable, match="takes no writes"):
        await PostgresStore(server.url("shut")).open(ALIVE)
    sql("CREATE DATABASE odd ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StoreUnavailable, match="LATIN1"):
        await PostgresStore(server.url("odd")).open(ALIVE)


async def test_a_replica_is_refused() -> None:
    replica = PostgresServer()
    try:
        (replica.folder / "data" / "standby.signal").touch()
        replica.start()
        with pytest.raises(StoreUnavailable, match="replica"):
            await PostgresStore(replica.url()).open(ALIVE)
    finally:
        replica.close()


async def test_settings_that_can_lose_commits_are_named(caplog: pytest.LogCaptureFixture) -> None:
    with postgres_server(fsync="off", full_page_writes="off") as careless:
        with pytest.raises(StoreUnavailable, match="fsync=off"):
            await PostgresStore(careless.url(), durability="power").open(ALIVE)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "clicket.stores.postgres"):
            async with opened(lambda: PostgresStore(careless.url(), timeout=30.0)) as store:
                assert ["fsync" in risk or "full_page_writes" in risk for risk in store.risks] == [True, True]  # type: ignore[attr-defined]
        assert len(caplog.records) == 2


async def test_a_commit_waits_for_the_disk_whatever_the_role_says(make: Make, sql: Any, server: PostgresServer) -> None:
    sql("CREATE ROLE hasty LOGIN SUPERUSER")
    sql("ALTER ROLE hasty SET synchronous_commit = off")
    store = PostgresStore(server.url(user="hasty"), durability="power", timeout=30.0)
    async with opened(lambda: store):
        assert store.risks == []
        rows = await store._open.pool.query("SELECT current_setting('synchronous_commit')")
        assert rows == [("on",)]
