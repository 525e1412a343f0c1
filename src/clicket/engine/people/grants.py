"""Grants: approvals that also answer later questions of the same rule about the same tool.

A grant is a document. Each use is counted by a compare-and-set before its call is approved: processes that use one at the same time
never use it more often than it allows, and a process that ends between the count and the call wastes one use.

A grant is written before the approval that it is given with, and counts once that is on record (`confirmed`). So a kill between the two
neither loses a grant that was given, nor leaves one that was not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from clicket import system
from clicket.engine.live_call import Call
from clicket.engine.people.approvers import Approver, names_of_caller
from clicket.engine.people.audit import AuditLog
from clicket.engine.stages import fit_schema
from clicket.errors import NotFound, StoreUnavailable, UsageError, did_you_mean
from clicket.model import Record
from clicket.model.grant import Grant, GrantTerms, StoredGrant, narrowest
from clicket.model.ports import Clock, Store, StoredDocument

__all__ = ["GRANT", "Grants", "granted_decision"]

GRANT = "approval_grant"
_PAGE = 500
_TRIES = 100
"""How often a use is tried while other processes change the same grant; then a person is asked."""
_Found = tuple[StoredDocument, StoredGrant]


class Grants:
    """`retention`: seconds for which a grant is kept that lets no more calls run."""

    def __init__(self, store: Store, clock: Clock, audit: AuditLog, *, retention: float) -> None:
        self._store = store
        self._clock = clock
        self._audit = audit
        self._retention = retention
        self._using = asyncio.Lock()  # calls of this process do not compete with each other

    # Giving.

    async def propose(
        self, record: Record, terms: GrantTerms, approver: Approver, *, by: str, reason: str
    ) -> StoredGrant:
        """Write a grant that counts once the approval with its id is on record. `by`, `reason`: as the approval has them."""
        asked = next(event.data for event in reversed(record.events) if event.type == "approval_requested")
        if not asked.get("rule"):
            raise UsageError(
                f"call {record.id!r} waits for an approval that no rule of the policy asked for, so no later call can be granted."
            )
        now = self._clock.now()
        seconds = terms.get("seconds")
        grant = Grant(
            id=f"gr_{system.random_hex(8)}",
            tool=record.tool,
            caller=terms.get("caller", record.caller),
            by=by,
            call=record.id,
            given_at=now,
            reason=reason,
            version=record.tool_version or None,
            thread=terms.get("thread"),
            arguments=terms.get("arguments"),
            uses=terms.get("uses"),
            expires_at=None if seconds is None else now + seconds,
        )
        stored = StoredGrant(
            grant=grant,
            rule=asked["rule"],
            identities=tuple(sorted(approver.names)),
            self_approval=asked.get("self_approval") is True,
            thread=record.thread,
            caller=record.caller,
        )
        await self._store.put_document(GRANT, _key(grant), msgspec.json.encode(stored), 0)
        return stored

    async def confirm(self, stored: StoredGrant) -> None:
        """The approval is on record. If this is lost, the first process that looks at the grant does it."""
        body = msgspec.json.encode(msgspec.structs.replace(stored, confirmed=True))
        await self._store.put_document(GRANT, _key(stored.grant), body, 1)

    async def withdraw(self, stored: StoredGrant) -> None:
        """The approval was not written."""
        await self._store.delete_document(GRANT, _key(stored.grant))

    # Using.

    async def use(self, call: Call) -> Grant | None:
        """Count one use of the narrowest grant that answers the policy's question about a call. None: there is none."""
        if not call.question.rule or call.question.approvers > 1:
            return None
        if call.request.id is not None and await self._store.load(call.id, call.thread, call.caller):
            return None  # the same call was made before: it is not made again, and needs no grant
        async with self._using:
            for _ in range(_TRIES):
                found = await self._fitting(call)
                if found is None:
                    return None
                document, stored = found
                grant = msgspec.structs.replace(
                    stored.grant, used=stored.grant.used + 1, last_used_at=self._clock.now()
                )
                body = msgspec.json.encode(msgspec.structs.replace(stored, grant=grant, confirmed=True))
                if await self._store.put_document(GRANT, document.key, body, document.version):
                    self._audit.jot(
                        grant.by,
                        "grant.used",
                        grant=grant.id,
                        call=call.id,
                        tool=grant.tool,
                        thread=call.thread,
                        caller=call.caller,
                        used=grant.used,
                    )
                    return grant
        return None

    async def _fitting(self, call: Call) -> _Found | None:
        now = self._clock.now()
        question = call.question
        found = {
            stored.grant.id: (document, stored)
            for document, stored in await self._of_tool(call.entry.tool)
            if stored.rule == question.rule
            and stored.grant.covers(call.entry.tool, call.caller, call.thread)
            and stored.grant.covers_version(call.required_tool().options.version)
            and stored.grant.state_at(now) == "active"
        }
        if not found:
            return None
        requesters = frozenset[str]()
        if not question.self_approval:
            requesters = await names_of_caller(self._store, call.caller) | call.origin.requesters
        tool = call.required_tool()
        arguments = call.arguments
        assert arguments is not None, "the validate stage has run"
        for stored in narrowest(stored for _, stored in found.values()):
            if requesters & set(stored.identities) or not fit_schema(
                stored.grant.arguments, arguments, tool.input_schema
            ):
                continue
            if await self._counts(stored):
                return found[stored.grant.id]
        return None

    async def _counts(self, stored: StoredGrant) -> bool:
        """Is the approval on record with which the grant was given?"""
        if stored.confirmed:
            return True
        grant = stored.grant
        given = await self._store.load(grant.call, stored.thread, stored.caller)
        return any(
            event.type == "approval_given"
            and event.data.get("grant") == grant.id
            and event.data.get("approved") is True
            for each in given
            for event in each.events
        )

    # Listing and revoking.

    async def listed(self) -> list[Grant]:
        """Every grant that is kept, the newest first."""
        now = self._clock.now()
        grants = [stored.grant for _, stored in await self._all() if await self._counts(stored)]
        shown = [msgspec.structs.replace(grant, state=grant.state_at(now)) for grant in grants]
        return sorted(shown, key=lambda grant: (-grant.given_at, grant.id))

    async def revoke(self, id: str, *, by: str) -> tuple[Grant, bool]:
        """From now on the grant lets no call run, in any process. False: it was revoked before."""
        for _ in range(_TRIES):
            every = await self._all()
            found = next(((document, stored) for document, stored in every if stored.grant.id == id), None)
            if found is None or not await self._counts(found[1]):
                near = did_you_mean(id, [stored.grant.id for _, stored in every])
                raise NotFound(
                    f"there is no grant {id!r:.100}.{near} `clicket grants` lists them, and so does `rt.grants.list()`."
                )
            document, stored = found
            grant = stored.grant
            now = self._clock.now()
            if grant.revoked_at is not None:
                return msgspec.structs.replace(grant, state="revoked"), False
            grant = msgspec.structs.replace(grant, revoked_at=now, revoked_by=by, state="revoked")
            body = msgspec.json.encode(msgspec.structs.replace(stored, grant=grant, confirmed=True))
            if await self._store.put_document(GRANT, document.key, body, document.version):
                await self._audit.kept(
                    by, "grant.revoked", grant=id, tool=grant.tool, caller=grant.caller, used=grant.used
                )
                return grant, True
        raise StoreUnavailable(
            f"grant {id!r} is being used by other processes all the time. Try again.", transient=True
        )

    async def sweep(self) -> int:
        """Remove grants that let no more calls run, after the retention of calls; returns how many."""
        now = self._clock.now()
        removed = 0
        for document, stored in await self._all():
            if document.updated_at >= now - self._retention:
                continue
            if stored.grant.state_at(now) != "active" or not await self._counts(stored):
                removed += await self._store.delete_document(GRANT, document.key)
        return removed

    # Reading.

    async def _of_tool(self, tool: str) -> list[_Found]:
        return await self._read(_prefix(tool))

    async def _all(self) -> list[_Found]:
        return await self._read("")

    async def _read(self, prefix: str) -> list[_Found]:
        found: list[_Found] = []
        after = prefix
        while True:
            page = await self._store.documents(GRANT, after=after, limit=_PAGE)
            mine = [document for document in page if document.key.startswith(prefix)]
            found += _decoded(mine)
            if len(mine) < _PAGE:
                return found
            after = page[-1].key


def _decoded(documents: Sequence[StoredDocument]) -> list[_Found]:
    """Without those that were damaged, or that another version of clicket wrote in another form: they let no call run."""
    found: list[_Found] = []
    for document in documents:
        try:
            found.append((document, msgspec.json.decode(document.body, type=StoredGrant)))
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
    return found


def _prefix(tool: str) -> str:
    """Keys begin with the tool, so that a call reads only the grants of its own."""
    return f"{tool}/"


def _key(grant: Grant) -> str:
    return f"{_prefix(grant.tool)}{grant.id}"


def granted_decision(grant: Grant) -> dict[str, Any]:
    """The data of the event with which a grant approves a call."""
    return {"approved": True, "by": grant.by, "reason": f"grant {grant.id}", "grant": grant.id}
