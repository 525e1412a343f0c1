"""CPU of the client and behaviour with a server that hangs: our connection over libpq, asyncpg, psycopg's AsyncConnection.

Run from the checkout, in an environment with clicket, `asyncpg` and `psycopg[binary]`:

    python -m benchmarks.trials.postgres_drivers
"""

from __future__ import annotations

import asyncio
import statistics
import time

import asyncpg
import psycopg
from tests.postgres_server import postgres_server

from clicket.stores.postgres.connection import Connection

SELECT = "SELECT id, body FROM t WHERE id = $1"
INSERT = "INSERT INTO t(body) SELECT unnest($1::text[]) RETURNING id"
NOTIFY = "SELECT pg_notify('waiting', $1)"
ROW = "x" * 200
ROUNDS = 8
MESSAGES = 2_000


async def ours(url):
    connection = await Connection.open([url.encode()], 5.0)

    async def query(sql, *values, limit=5.0):
        return await connection.run(sql, list(values), limit=limit)

    return query, lambda: query("SELECT 1", limit=0.5), connection.close


async def through_asyncpg(url):
    connection = await asyncpg.connect(url)
    prepared = {sql: await connection.prepare(sql) for sql in (SELECT, INSERT)}

    async def query(sql, *values):
        return await prepared[sql].fetch(*values)

    return query, lambda: connection.fetch("SELECT 1", timeout=0.5), connection.terminate


async def through_psycopg(url):
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)

    async def query(sql, *values):
        return await (await connection.execute(sql.replace("$1", "%s"), values, prepare=True)).fetchall()

    async def hang():
        async with asyncio.timeout(0.5):
            await connection.execute("SELECT 1")

    return query, hang, connection.pgconn.finish


async def message_of_clicket(url):
    connection = await Connection.open([url.encode()], 5.0)

    async def write():
        await connection.run(INSERT, [[ROW]], limit=5.0, then=(NOTIFY, ["x"]))

    return write, connection.close


async def message_of_asyncpg(url):
    connection = await asyncpg.connect(url)
    insert, notify = await connection.prepare(INSERT), await connection.prepare(NOTIFY)

    async def write():
        await insert.fetch([ROW])
        await notify.fetch("x")

    return write, connection.terminate


async def messages(url):
    """A row is written, and a message follows it that no other transaction may hold up: the time until another connection has it."""
    listener, heard = await Connection.open([url.encode()], 5.0), asyncio.Event()
    listener.on_notification = lambda channel, text: heard.set()
    await listener.script("LISTEN waiting", limit=5.0)
    made = {"clicket": await message_of_clicket(url), "asyncpg": await message_of_asyncpg(url)}
    found = {name: [] for name in made}
    for _ in range(MESSAGES):
        for name, (write, _) in made.items():  # in turns: a load of the machine is on both
            heard.clear()
            began = time.perf_counter()
            await asyncio.gather(write(), heard.wait())
            found[name].append((time.perf_counter() - began) * 1e6)
    for name, each in found.items():
        first, middle, last = statistics.quantiles(each, n=4)
        print(f"a message behind a row   {name:24} {middle:6.0f} µs ({first:.0f} - {last:.0f})")
    for _, close in made.values():
        close()
    listener.close()


CONTENDERS = {"clicket": ours, "asyncpg": through_asyncpg, "psycopg AsyncConnection": through_psycopg}
WORK = {
    "one row read": (300, SELECT, 1),
    "one row written": (100, INSERT, [ROW]),
    "a hundred written": (15, INSERT, [ROW] * 100),
}


async def main() -> None:
    with postgres_server() as server:
        setup = await asyncpg.connect(server.url())
        await setup.execute("CREATE TABLE t(id bigserial PRIMARY KEY, body text); INSERT INTO t(body) VALUES ('x')")
        await setup.close()
        found: dict[tuple[str, str], list[float]] = {}
        for _ in range(ROUNDS):
            for name, make in CONTENDERS.items():
                query, _, close = await make(server.url())
                for what, (times, sql, value) in WORK.items():
                    await query(sql, value)
                    began = time.process_time()
                    for _ in range(times):
                        await query(sql, value)
                    found.setdefault((what, name), []).append((time.process_time() - began) / times * 1e6)
                close()
        for (what, name), each in found.items():
            print(f"{what:18} {name:24} {statistics.median(each):6.0f} µs CPU ({min(each):.0f} - {max(each):.0f})")
        await messages(server.url())
        for name, make in CONTENDERS.items():
            query, hang, close = await make(server.url())
            await query(SELECT, 1)
            server.pause()
            began = time.monotonic()
            try:
                await hang()
            except Exception as error:
                print(
                    f"{name:24} gave a stopped server up after {time.monotonic() - began:.2f} s: {type(error).__name__}"
                )
            finally:
                server.resume()
                close()


asyncio.run(main())
