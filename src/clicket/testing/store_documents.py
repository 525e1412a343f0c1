"""Laws about documents, the audit log, and the list of calls that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from clicket.kernel import State
from clicket.model.ports import DocumentWrite, Query, Store, StoredDocument
from clicket.testing.store_kit import ALIVE, Laws, append, creation, law, news, opened, paged_ids

__all__ = ["laws"]

laws = Laws()


@laws.opened(ALIVE)
async def documents_have_versions(store: Store) -> None:
    put = store.put_document
    law.equal(await store.document("kind", "key"), None, "there is none")
    law(not await put("kind", "key", b"0", 1), "a missing document has no version 1")
    law.equal(await store.document("kind", "key"), None, "a refused write leaves nothing")
    law(await put("kind", "key", b"1", 0), "a write that expects version 0 creates the document")
    law(not await put("kind", "key", b"2", 0), "a document is created only once")
    law(await put("kind", "key", b"2", 1), "a writer with the current version is accepted")
    law(not await put("kind", "key", b"3", 1), "a write that expects an old version is refused")
    law(await put("kind", "key", b"4", None), "None writes whatever there is")
    law(await put("kind", "new", b"\x00\xff", None), "and creates a missing document")
    law(await put("other", "key", b"5", 0), "another kind is another document")
    document = await store.document("kind", "key")
    law(document is not None and document.updated_at > 1.7e9, "a document has the time of its last write")
    law.equal(_plain(document), ("kind", "key", b"4", 3), "the last body, and how often it was written")
    law.equal(_plain(await store.document("kind", "new")), ("kind", "new", b"\x00\xff", 1), "bodies are bytes")
    law(await store.delete_document("kind", "key"), "a document can be deleted")
    law(not await store.delete_document("kind", "key"), "a deleted document cannot be deleted again")
    law.equal(_plain(await store.document("other", "key")), ("other", "key", b"5", 1), "other documents stay")
    law(await put("kind", "key", b"6", 0), "a deleted document can be created again")
    big = bytes(range(256)) * 4096
    law(await put("kind", "big", big, 0), "a megabyte is a small document")
    law.equal(_plain(await store.document("kind", "big")), ("kind", "big", big, 1), "every byte of it")


@laws.opened(ALIVE)
async def documents_are_changed_by_one_writer_at_a_time(store: Store) -> None:
    """Uses of a grant are counted so: a writer that read an old version is refused, and reads again."""

    async def count() -> None:
        while True:
            before = await store.document("kind", "counter")
            value, version = (0, 0) if before is None else (int(before.body), before.version)
            if await store.put_document("kind", "counter", b"%d" % (value + 1), version):
                return

    await asyncio.gather(*(count() for _ in range(12)))
    law.equal(_plain(await store.document("kind", "counter")), ("kind", "counter", b"12", 12), "no write is lost")


@laws.opened(ALIVE)
async def documents_are_written_together(store: Store) -> None:
    """What a budget counts and what the ledger has are written so: both, or neither."""

    def write(kind: str, key: str, body: bytes, expect: int) -> DocumentWrite:
        return DocumentWrite(kind=kind, key=key, body=body, expect=expect)

    async def found() -> list[tuple[str, str, bytes, int] | None]:
        return [_plain(await store.document(kind, key)) for kind, key in (("one", "b"), ("two", "a"))]

    law(await store.put_documents([]), "nothing is always written")
    law(await store.put_documents([write("two", "a", b"1", 0), write("one", "b", b"2", 0)]), "several are created")
    law.equal(await found(), [("one", "b", b"2", 1), ("two", "a", b"1", 1)], "each with its own body")
    law(not await store.put_documents([write("one", "b", b"3", 1), write("two", "a", b"3", 0)]), "the last is refused")
    law(not await store.put_documents([write("one", "b", b"3", 2), write("two", "a", b"3", 1)]), "the first is refused")
    law(not await store.put_documents([write("one", "b", b"3", 1), write("two", "c", b"3", 1)]), "one does not exist")
    law.equal(
        await found(), [("one", "b", b"2", 1), ("two", "a", b"1", 1)], "one that is refused leaves all as they were"
    )
    law.equal(await store.document("two", "c"), None, "and makes none")
    law(
        await store.put_documents([write("one", "b", b"", 1), write("two", "a", b"\x00" * 100_000, 1)]),
        "others are written",
    )
    law.equal(
        await found(), [("one", "b", b"", 2), ("two", "a", b"\x00" * 100_000, 2)], "bodies are bytes of any length"
    )

    async def count(first: str, second: str) -> None:
        while True:
            before = [await store.document("count", key) for key in (first, second)]
            new = [(0, 0) if each is None else (int(each.body), each.version) for each in before]
            pair = zip((first, second), new, strict=True)
            if await store.put_documents([write("count", key, b"%d" % (n + 1), version) for key, (n, version) in pair]):
                return

    await asyncio.gather(*(count(*(("x", "y") if n % 2 else ("y", "x"))) for n in range(8)))
    law.equal(
        [each.body for each in await store.documents("count")],
        [b"8", b"8"],
        "no write is lost, and none waits for ever",
    )


@laws
async def documents_are_read_at_once_or_not_at_all(make: Callable[[], Store]) -> None:
    """A store that cannot read without waiting returns None every time; one that can reads what any process wrote."""
    law.equal(make().document_now("kind", "key"), None, "a store that is not open cannot look")
    async with opened(make) as store:

        def same(document: StoredDocument | None, why: str) -> None:
            now = store.document_now("kind", "key")
            law(now is None or now == (document,), f"`document_now` returns what `document` does, or None: {why}")

        same(await store.document("kind", "key"), "there is none")
        for body in (b"1", b"2"):
            await store.put_document("kind", "key", body, None)
            document = await store.document("kind", "key")
            law(document is not None and document.body == body, "a document is read as it was written")
            same(document, "what was written is seen at once")
        await store.delete_document("kind", "key")
        same(await store.document("kind", "key"), "the document was deleted")
    law.equal(store.document_now("kind", "key"), None, "a closed store cannot look")


def _plain(document: StoredDocument | None) -> tuple[str, str, bytes, int] | None:
    return None if document is None else (document.kind, document.key, document.body, document.version)


@laws.opened(ALIVE)
async def documents_are_listed_by_code_point(store: Store) -> None:
    keys = ["a", "B", "ä", "z", "é", "Z", "aa", "\uffee", "😀", "a b", "ß", "ss", "10", "9", "\u0301", "a😀", "中"]
    for key in keys:
        await store.put_document("kind", key, key.encode(), 0)
    await store.put_document("kinds", "a", b"", 0)
    found = [document.key for document in await store.documents("kind")]
    law.equal(found, sorted(keys), "documents of one kind, in the order of code points")
    pages, after = [], ""
    while page := await store.documents("kind", after=after, limit=3):
        law(len(page) <= 3, "`limit` bounds the list")
        law.equal([p.body for p in page], [p.key.encode() for p in page], "documents are listed with their bodies")
        pages += [document.key for document in page]
        after = page[-1].key
    law.equal(pages, sorted(keys), "pages hold every document once")
    law.equal([p.key for p in await store.documents("kind", after="m", limit=2)], ["ss", "z"], "`after` need not exist")
    law.equal(await store.documents("nothing"), [], "a kind of which there is nothing")


@laws.opened(ALIVE)
async def the_log_only_grows(store: Store) -> None:
    law.equal(await store.audited(), [], "an empty log")
    await store.audit([])
    await store.audit([b"1", b"2"])
    await store.audit([b"\x00\xff", "😀'\"".encode(), b"x" * 1_000_000])
    entries = await store.audited()
    wanted = [b"x" * 1_000_000, "😀'\"".encode(), b"\x00\xff", b"2", b"1"]
    law.equal([entry.body for entry in entries], wanted, "newest first")
    numbers = [entry.number for entry in entries]
    law.equal(numbers, sorted(set(numbers), reverse=True), "entries have increasing numbers")
    law(all(entry.at > 1.7e9 for entry in entries), "entries have their time")
    law.equal([entry.body for entry in await store.audited(limit=2)], wanted[:2], "`limit` bounds the list")
    seen, before = [], None
    while page := await store.audited(before=before, limit=2):
        seen += [entry.body for entry in page]
        before = page[-1].number
    law.equal(seen, wanted, "pages hold every entry once")
    await store.audit([b"3"])
    law.equal([entry.number for entry in (await store.audited())[1:]], numbers, "what is written stays as it is")


@laws.opened(ALIVE)
async def calls_that_wait_are_found(store: Store) -> None:
    changes = []
    for n in range(9):
        change = creation(f"c{n}", thread=f"t{n % 2}", caller="me" if n < 6 else "")
        change.waiting_for = "approval" if n % 3 else None
        changes.append(change)
    law.equal(await append(store, *changes), [None] * 9, "calls that wait from the beginning")

    async def names(**wanted: Any) -> list[str]:
        return [stored.id for stored in await store.history(Query(waiting_for="approval", **wanted))]

    law.equal(await names(), ["c8", "c7", "c5", "c4", "c2", "c1"], "waiting calls are listed, newest first")
    law.equal(await names(thread="t0"), ["c8", "c4", "c2"], "waiting calls of a thread")
    law.equal(await names(caller="me"), ["c5", "c4", "c2", "c1"], "waiting calls of a caller")
    law.equal(await store.history(Query(waiting_for="nothing")), [], "no call waits for this")
    await append(store, news(changes[8]), news(changes[0], waiting_for="approval"))
    await append(store, news(changes[7], fence=-1, signal=True))
    end = news(changes[5], state=State.CANCELLED, ended_at=200.0, waiting_for="approval")
    law.equal(await append(store, end), [None], "a waiting call can end")
    law.equal(await names(), ["c7", "c4", "c2", "c1", "c0"], "calls that stopped waiting, or ended, are not listed")
    law.equal(await names(active=True, since=100.0), ["c7", "c4", "c2", "c1", "c0"], "waiting calls with other filters")
    seen = await paged_ids(store, 2, waiting_for="approval")
    law.equal(seen, ["c7", "c4", "c2", "c1", "c0"], "pages hold every call once")
