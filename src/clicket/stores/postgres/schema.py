"""The tables, their versions, and the refusal of every database that is not ours to write.

Migrations are numbered files, each applied once, in one transaction under a lock: two processes that open a new store at the
same moment both find it made.
"""

from __future__ import annotations

import logging
import re
from importlib.resources import files

from clicket.errors import StoreUnavailable
from clicket.stores.postgres.address import quoted
from clicket.stores.postgres.connection import Connection, Refused
from clicket.stores.postgres.pool import Server

__all__ = ["VERSION", "prepare"]

logger = logging.getLogger("clicket.stores.postgres")

_LEAST_SERVER = 140000
_PATIENCE = 60.0  # seconds to wait while another process migrates
_SETTINGS = """SELECT current_setting('server_version_num')::int, current_setting('server_encoding'), pg_is_in_recovery(),
    current_setting('transaction_read_only') = 'on', current_setting('fsync') = 'on',
    current_setting('full_page_writes') = 'on'"""


def _migrations() -> list[tuple[int, str, str]]:
    found = []
    for file in files("clicket.stores.postgres").joinpath("migrations").iterdir():
        match = re.fullmatch(r"(\d{4})_(\w+)\.sql", file.name)
        if match:
            found.append((int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return sorted(found)


_MIGRATIONS = _migrations()
VERSION = _MIGRATIONS[-1][0]
_FUNCTIONS = [
    file.read_text(encoding="utf-8")
    for file in files("clicket.stores.postgres").joinpath("functions").iterdir()
    if file.name.endswith(".sql")
]
"""What must be one transaction is one function, called in one round trip."""
_DROP_FUNCTIONS = """DO $do$
DECLARE
    old regprocedure;
BEGIN
    FOR old IN SELECT p.oid FROM pg_proc p
        WHERE p.pronamespace = current_schema()::regnamespace AND p.prorettype <> 'trigger'::regtype
    LOOP
        EXECUTE 'DROP FUNCTION ' || old;
    END LOOP;
END $do$"""


async def prepare(server: Server, connection: Connection, durability: str) -> list[str]:
    """Create or migrate the schema, or refuse it. Returns what the server's settings put at risk, as sentences."""
    risks = await _examine(server, connection, durability)
    version = await _version(server, connection)
    if version < VERSION:
        await _migrate(server, connection)
    return risks


async def _examine(server: Server, connection: Connection, durability: str) -> list[str]:
    ((number, encoding, replica, read_only, fsync, whole_pages),) = await connection.run(_SETTINGS, limit=server.limit)
    if number < _LEAST_SERVER:
        raise _refusal(server, f"is PostgreSQL {number // 10000}; version {_LEAST_SERVER // 10000} or later is needed.")
    if encoding != "UTF8":
        raise _refusal(server, f"is encoded in {encoding}. Create a database with ENCODING 'UTF8' for the store.")
    if replica or read_only:
        raise _refusal(server, "takes no writes: it is a replica, or was set read-only. Name the primary server.")
    risks = []
    if not fsync:
        text = "runs with fsync=off: what it confirms can be lost, and its files spoiled, when its machine goes down."
        if durability == "power":
            raise _refusal(server, f"{text} Set fsync=on, or open the store with durability='process'.")
        risks.append(f"The server {text}")
    if not whole_pages:
        risks.append(
            "The server runs with full_page_writes=off: a power loss in the middle of a write can spoil its files."
        )
    for risk in risks:
        logger.warning("%s: %s", server.name, risk)
    return risks


async def _version(server: Server, connection: Connection) -> int:
    """The number of the last migration; 0 for a schema that is not there, or empty."""
    schema = server.address.schema
    ((ours, others),) = await connection.run(
        """SELECT to_regclass(quote_ident($1::text) || '.clicket_migrations') IS NOT NULL,
            EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1::text)""",
        [schema],
        limit=server.limit,
    )
    if not ours:
        if others:
            raise _refusal(
                server,
                f"has a schema {schema!r} of another program. It was left untouched: name another, with ?schema=.",
            )
        return 0
    try:
        sql = f"SELECT number, name FROM {quoted(schema)}.clicket_migrations ORDER BY number"  # noqa: S608  # a checked name
        applied = await connection.run(sql, limit=server.limit)
    except Refused as refused:
        raise _refusal(server, f"has a schema {schema!r} that cannot be read: {refused}. Check its owner.") from refused
    known = [(number, name) for number, name, _ in _MIGRATIONS]
    if applied[: len(known)] != known[: len(applied)]:
        raise _refusal(
            server,
            f"has a schema {schema!r} that was made in another way than this clicket makes it. It was left untouched: open it with "
            "the clicket that wrote it, or name another, with ?schema=.",
        )
    if len(applied) > len(known):
        raise _refusal(
            server,
            f"was written by a newer clicket (schema {applied[-1][0]}, this one knows {VERSION}). It was left untouched: upgrade "
            "clicket, or use another schema.",
        )
    return len(applied)


async def _migrate(server: Server, connection: Connection) -> None:
    schema = server.address.schema
    lock = "SELECT pg_advisory_xact_lock(hashtextextended('clicket migrations ' || $1::text, 0))"
    try:
        await connection.script(f"BEGIN; SET LOCAL statement_timeout = {int(_PATIENCE * 1000)}", limit=server.limit)
        await connection.run(lock, [schema], limit=_PATIENCE)
        version = await _version(server, connection)  # another process may have been faster
        for number, name, sql in _MIGRATIONS:
            if number <= version:
                continue
            if number == 1:
                there = "SELECT FROM pg_namespace WHERE nspname = $1::text"
                if not await connection.run(
                    there, [schema], limit=server.limit
                ):  # IF NOT EXISTS needs the right to create
                    await connection.script(f"CREATE SCHEMA {quoted(schema)}", limit=server.limit)
                await connection.script(
                    "CREATE TABLE clicket_migrations "
                    "(number integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())",
                    limit=_PATIENCE,
                )
            await connection.script(sql, limit=_PATIENCE)
            note = "INSERT INTO clicket_migrations (number, name) VALUES ($1::integer, $2::text)"
            await connection.run(note, [number, name], limit=server.limit)
        if version < VERSION:
            # They call each other, so none can be checked before all are there.
            await connection.script(f"{_DROP_FUNCTIONS}; SET LOCAL check_function_bodies = off", limit=_PATIENCE)
            for sql in _FUNCTIONS:
                await connection.script(sql, limit=_PATIENCE)
        await connection.script("COMMIT", limit=_PATIENCE)
    except Refused as refused:
        connection.close()
        if refused.code == "42501":
            raise _refusal(
                server,
                f"does not let us make tables: {refused}. Let an administrator run: CREATE SCHEMA {quoted(schema)} "
                "AUTHORIZATION <user>.",
            ) from refused
        raise _refusal(
            server, f"could not be migrated, and was left as it was: {refused} ({refused.code})."
        ) from refused


def _refusal(server: Server, text: str) -> StoreUnavailable:
    return StoreUnavailable(f"{server.name} {text}", url=server.name)
