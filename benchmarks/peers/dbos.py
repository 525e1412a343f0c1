"""DBOS: a workflow of one step.

Variants: `sqlite` is as shipped (rollback journal), `sqlite-normal` has the settings of our process mode (WAL/NORMAL),
`postgres` is on PostgreSQL.
DBOS needs a newer SQLite than some systems have; pysqlite3 brings one and takes the standard module's place first.
"""

from __future__ import annotations

import sys

import pysqlite3

sys.modules["sqlite3"] = pysqlite3
sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2

import asyncio  # noqa: E402  # after the swap above
import contextlib  # noqa: E402
import io  # noqa: E402

import sqlalchemy as sa  # noqa: E402
from dbos import DBOS  # noqa: E402

from benchmarks import timing  # noqa: E402


@DBOS.step()
async def noop(a: int) -> dict:
    return {"a": a}


@DBOS.workflow()
async def one_step(a: int) -> dict:
    return await noop(a)


def _wal_normal(connection: object, _record: object) -> None:
    connection.execute("PRAGMA journal_mode=WAL")  # type: ignore[attr-defined]  # a DBAPI connection
    connection.execute("PRAGMA synchronous=NORMAL")  # type: ignore[attr-defined]


async def main() -> None:
    arguments = timing.budget()
    if arguments.variant == "sqlite-normal":
        sa.event.listen(sa.Engine, "connect", _wal_normal)
    with timing.scratch() as folder:
        postgres = arguments.variant == "postgres"
        url = timing.server("BENCH_POSTGRES") if postgres else f"sqlite:///{folder}/dbos.db"
        DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
        with contextlib.redirect_stdout(io.StringIO()):
            DBOS.launch()
        assert await one_step(1) == {"a": 1}
        figures = await timing.at_once(lambda: one_step(1), seconds=arguments.seconds)
        used = timing.versions("dbos") if postgres else {**timing.versions("dbos"), "sqlite": pysqlite3.sqlite_version}
        DBOS.destroy(workflow_completion_timeout_sec=0)
    timing.report(figures, used)


asyncio.run(main())
