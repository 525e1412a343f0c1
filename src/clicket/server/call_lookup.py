"""Finds the call that a request names, among those that its principal may see. Calls of other keys are not found.

Also what a response says about a call that was just made: where it is, or why it was refused.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import msgspec

from clicket.errors import NotFound, UsageError
from clicket.kernel import State
from clicket.model import Page, Record, is_seen, is_unresolved, read, waits_in_doubt
from clicket.model.ports import Handle, Store
from clicket.runtime.runtime import Runtime
from clicket.server.parameters import Parameter
from clicket.server.problems import Refused, problem_of_result
from clicket.server.request import Request
from clicket.server.responses import Response, json_response
from clicket.server.schemas import Listing, record_json, summary_of, without_tracebacks

__all__ = [
    "CALLER",
    "REFUSALS",
    "THREAD",
    "CallLookup",
    "as_seen_by",
    "begun",
    "call_path",
    "own_runtime",
    "page_response",
    "thread_of",
    "visible_runtime",
]

REFUSALS = frozenset({"invalid_input", "tool_not_found", "permission_denied", "queue_full", "store_unavailable"})
"""Codes of calls that were refused before their tool ran. The response is a problem instead of a result."""
_MAX_NAMED = 10
THREAD = Parameter(name="thread", description="The call's thread; needed when two threads used one id.")
CALLER = Parameter(
    name="caller",
    description="The id of the key that made it. Another key's only for admin, and for approve if a person must act.",
    max_length=100,
    min_length=0,
)


def visible_runtime(request: Request) -> Runtime:
    """The runtime with the calls that the principal may see, or those of the caller that an admin names."""
    caller = request.query("caller")
    principal = request.principal
    if caller is None:
        return principal.sees
    if not principal.is_admin:
        if caller == principal.id:
            return principal.own
        text = "only scope admin may name another caller. Leave `caller` out."
        raise Refused("missing_scope", text, needed=("admin",))
    return principal.sees.acting_for(caller, (), principal.approver.names)


def own_runtime(request: Request) -> Runtime:
    """The runtime that acts for the principal, or for the caller that an admin names."""
    return request.principal.own if request.query("caller") is None else visible_runtime(request)


async def begun(view: Runtime, handle: Handle) -> tuple[State, Response | None]:
    """The state of a call that was just made, and the problem that answers for it if it was refused."""
    state = await view.state(handle.id, thread=handle.thread)
    if state.is_terminal:
        error = (await view.get(handle.id, thread=handle.thread)).error
        if error is not None and error.code in REFUSALS:
            return state, problem_of_result(error, handle.id)
    return state, None


def call_path(handle: Handle) -> str:
    """Where the call is looked at."""
    path = f"/calls/{quote(handle.id, safe='')}"
    return path if handle.thread == "default" else f"{path}?thread={quote(handle.thread, safe='')}"


def thread_of(request: Request) -> str:
    """The thread in the path."""
    thread = request.path("threadId")
    if not 1 <= len(thread) <= 512 or "\x00" in thread:
        raise Refused("usage", "a thread's name has 1 to 512 characters, and no NUL.")
    return thread


def as_seen_by(request: Request, record: Record) -> Record:
    principal = request.principal
    return record if principal.is_admin or record.caller == principal.id else without_tracebacks(record)


def page_response(page: Page, *, whole: bool) -> Response:
    """`whole`: with the records, else with summaries."""
    if whole:
        items = b",".join(record_json(record) for record in page.items)
        rest = msgspec.json.encode({"cursor": page.cursor, "searched_to": page.searched_to})
        return Response(200, b'{"items":[' + items + b"]," + rest[1:])
    summaries = [summary_of(record) for record in page.items]
    return json_response(Listing(items=summaries, cursor=page.cursor, searched_to=page.searched_to))


class CallLookup:
    """`acting_for(caller)` is the runtime for that caller."""

    def __init__(self, acting_for: Callable[[str], Runtime], store: Callable[[], Store]) -> None:
        self._acting_for = acting_for
        self._store = store

    async def find(self, request: Request, *, waiting: bool = True) -> tuple[Runtime, Record]:
        """The call that the request names, and the runtime in which it is found.

        Scope `approve` also finds calls of other callers that wait for a person, for approval or for a resolution, unless `waiting`
        is False: then only calls that the principal can still see after the decision.
        """
        id = request.path("id")
        thread = request.query("thread")
        principal = request.principal
        request.scope["clicket.call"] = id
        decides = waiting and principal.may("approve")
        caller = request.query("caller")
        if not decides or principal.is_admin or caller in (None, principal.id):
            view = visible_runtime(request)
            try:
                return view, await view.get(id, thread=thread)
            except NotFound:
                if not decides:
                    raise
            except UsageError as several:
                raise await self.ambiguous(request, several) from None
        record = await self._waiting(id, thread, caller)
        return self._acting_for(record.caller), record

    async def to_decide(self, request: Request, seen: str) -> tuple[Runtime, Record]:
        """The call that a decision is about: the one whose question the person saw, and no other. Needs scope `approve`.

        `seen`: the hash of the question. Without it, the id must be unique among all calls, waiting or not, so that the decision
        cannot apply to another call with this id.
        """
        id = request.path("id")
        thread = request.query("thread")
        principal = request.principal
        request.scope["clicket.call"] = id
        stored = await self._store().load(id, thread, request.query("caller"))
        every = [read(each.id, each.events) for each in stored if each.damaged is None]
        asked = [record for record in every if record.waiting_for == "approval"]
        seen_ones = [record for record in asked if record.approval and is_seen(record.approval["hash"], seen)]
        visible = [record for record in every if record in asked or principal.is_admin or record.caller == principal.id]
        if not visible:
            raise NotFound(f"there is no call {id!r}. It may have been swept; `GET /calls` lists what is there.")
        if seen and asked and not seen_ones:
            text = (
                f"call {id!r} waits for another decision than the one that was seen. Nothing was changed; look again."
            )
            raise Refused("conflict", text)
        if not seen_ones and len(every) > 1:
            places = [(record.thread, record.caller) for record in every]
            raise _which(id, places, also=[(record.thread, record.caller) for record in visible])
        record = (seen_ones or visible)[0]
        return self._acting_for(record.caller), record

    async def to_resolve(self, request: Request) -> Record:
        """The call that a resolution is about. Needs scope `approve`, which finds calls of all callers whose outcome is unknown, or was
        before another person settled it, or that wait for a decision about it. The id must be unique among all calls."""
        id = request.path("id")
        principal = request.principal
        request.scope["clicket.call"] = id
        stored = await self._store().load(id, request.query("thread"), request.query("caller"))
        every = [read(each.id, each.events) for each in stored if each.damaged is None]
        visible = [
            record
            for record in every
            if is_unresolved(record)
            or waits_in_doubt(record)
            or record.resolution is not None
            or principal.is_admin
            or record.caller == principal.id
        ]
        if not visible:
            raise NotFound(
                f"there is no call {id!r}. It may have been swept; `GET /unknown` lists what can be settled."
            )
        if len(every) > 1:
            places = [(record.thread, record.caller) for record in every]
            raise _which(id, places, also=[(record.thread, record.caller) for record in visible])
        return visible[0]

    async def _waiting(self, id: str, thread: str | None, caller: str | None) -> Record:
        """The call of any caller that has this id and waits for a person. Errors do not mention other calls of this id."""
        found = []
        for stored in await self._store().load(id, thread, caller):
            if stored.damaged is None:
                record = read(stored.id, stored.events)
                if record.waiting_for == "approval" or is_unresolved(record):
                    found.append(record)
        if not found:
            raise NotFound(f"there is no call {id!r}. It may have been swept; `GET /calls` lists what is there.")
        if len(found) > 1:
            raise _which(id, [(record.thread, record.caller) for record in found], " that wait for a person")
        return found[0]

    async def ambiguous(self, request: Request, error: UsageError) -> Refused:
        """The error for an id that several calls have. The principal may see all of them."""
        id = request.path("id")
        thread = request.query("thread")
        principal = request.principal
        caller = request.query("caller") if principal.is_admin else principal.id
        found = await self._store().load(id, thread, caller)
        first = [stored.events[0].data for stored in found if stored.events and stored.damaged is None]
        places = [(data["thread"], data.get("caller", "")) for data in first]
        return _which(id, places) if len(places) > 1 else Refused("conflict", error.message)


def _which(
    id: str, places: list[tuple[str, str]], more: str = "", also: list[tuple[str, str]] | None = None
) -> Refused:
    """`also`: the calls that the error may name; all of them unless given."""
    named = places if also is None else also
    shown = [f"thread={thread!r} caller={caller!r}" for thread, caller in sorted(named)[:_MAX_NAMED]]
    names = ["thread="] * (len({thread for thread, _ in places}) > 1) + ["caller="] * (
        len({caller for _, caller in places}) > 1
    )
    text = f"there are {len(places)} calls {id!r}{more}; pass {' and '.join(names)} to say which. Some: {'; '.join(shown)}."
    return Refused("conflict", text)
