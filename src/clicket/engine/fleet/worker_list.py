"""The workers of a store, read from their entries (`worker_entry.py`): which are alive, and which were lost."""

from __future__ import annotations

import re

import msgspec

from clicket.engine.fleet.worker_entry import WORKER, StoredWorker
from clicket.errors import Conflict, NotFound, StoreUnavailable, did_you_mean
from clicket.model.ports import Clock, Owner, Store, StoredDocument
from clicket.model.worker import WorkerInfo, WorkerState

__all__ = ["LOST_FOR", "listed_workers", "living_workers", "set_worker_state", "sweep_lost_workers"]

LOST_FOR = 3600.0
"""Seconds for which a worker is listed as lost."""
_ID = re.compile(r"[A-Za-z0-9.-]{1,160}")
_PAGE = 500
_TRIES = 20
_Identity = tuple[str, str, int, str]


async def listed_workers(store: Store) -> list[WorkerInfo]:
    """Every worker, the one that started first before the others."""
    found = await _stored(store)
    alive = await _alive(store)  # read after the entries, so that new workers are known
    return sorted((_as_seen(each, alive) for _, each in found), key=lambda worker: (worker.started_at, worker.id))


async def living_workers(store: Store) -> list[WorkerInfo]:
    """Those of `listed_workers` that are not lost."""
    return [worker for worker in await listed_workers(store) if worker.state != "lost"]


async def set_worker_state(store: Store, id: str, state: WorkerState) -> tuple[WorkerInfo, bool]:
    """Write the state of a worker, which finds it when it renews its entry. False: it has that state already.

    Raises `NotFound`, and `Conflict` if the worker is lost, or ends because it was drained."""
    for _ in range(_TRIES):  # the worker renews its entry meanwhile
        document = await store.document(WORKER, id) if _ID.fullmatch(id) else None
        stored = None if document is None else _read(document)
        if document is None or stored is None:
            raise await _unknown(store, id)
        if store.durability == "none":
            raise Conflict(f"{store.url} has one worker, and no other could run its calls. Close the runtime instead.")
        worker = _as_seen(stored, await _alive(store))
        if worker.state == "lost":
            raise Conflict(f"worker {id!r} is lost: it takes no calls, and other workers take over those that it held.")
        if worker.state == state:
            return worker, False
        if worker.state == "draining" and worker.role == "worker":
            raise Conflict(f"worker {id!r} drains, and ends then. Start another one in its place.")
        changed = msgspec.structs.replace(worker, state=state)
        body = msgspec.json.encode(msgspec.structs.replace(stored, worker=changed))
        if await store.put_document(WORKER, id, body, document.version):
            return changed, True
    raise StoreUnavailable(f"the entry of worker {id!r} changed all the time. Try again.", transient=True)


async def sweep_lost_workers(store: Store, clock: Clock) -> int:
    """Remove the entries of workers that were lost an hour ago or earlier; returns how many there were."""
    removed = 0
    old = [(document, each) for document, each in await _stored(store) if document.updated_at < clock.now() - LOST_FOR]
    if old:
        alive = await _alive(store)
        for document, stored in old:
            if _identity(stored.owner) not in alive:
                removed += await store.delete_document(WORKER, document.key)
    return removed


async def _stored(store: Store) -> list[tuple[StoredDocument, StoredWorker]]:
    found: list[tuple[StoredDocument, StoredWorker]] = []
    after = ""
    while True:
        page = await store.documents(WORKER, after=after, limit=_PAGE)
        found += [(document, stored) for document in page if (stored := _read(document)) is not None]
        if len(page) < _PAGE:
            return found
        after = page[-1].key


def _read(document: StoredDocument) -> StoredWorker | None:
    """None: it was damaged, or another version of clicket wrote it in another form."""
    try:
        return msgspec.json.decode(document.body, type=StoredWorker)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


async def _alive(store: Store) -> frozenset[_Identity]:
    return frozenset(_identity(presence.owner) for presence in await store.owners() if presence.alive)


def _identity(owner: Owner) -> _Identity:
    return owner.host, owner.boot, owner.pid, owner.started


def _as_seen(stored: StoredWorker, alive: frozenset[_Identity]) -> WorkerInfo:
    if _identity(stored.owner) in alive:
        return stored.worker
    return msgspec.structs.replace(stored.worker, state="lost", running=0)


async def _unknown(store: Store, id: str) -> NotFound:
    known = [document.key for document, _ in await _stored(store)]
    return NotFound(
        f"there is no worker {id!r:.200}.{did_you_mean(id, known)} `clicket workers` lists all, and so does `rt.workers.list()`."
    )
