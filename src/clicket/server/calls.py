"""`/calls`: make calls, look at them, end them. Another key's call is not there."""

from __future__ import annotations

import asyncio
import re
from typing import Any
from urllib.parse import quote

import msgspec

from clicket.engine import CallHandle
from clicket.errors import NotFound, UsageError
from clicket.kernel import State
from clicket.model import Page, Record, ToolResult, read
from clicket.model.codec import clean
from clicket.runtime import Runtime
from clicket.server import bodies
from clicket.server.operations import Answer, Asked, Body, Operation, Parameter
from clicket.server.problems import Refused, problem_of_result
from clicket.server.replies import Reply, json_reply
from clicket.server.shapes import (
    Accepted,
    CallRequest,
    Cancelled,
    Listing,
    Stop,
    record_json,
    result_json,
    summary_of,
)
from clicket.server.traces import traced

__all__ = ["CALLER", "OPERATIONS", "THREAD", "find", "view_of"]

REFUSALS = frozenset({"invalid_input", "tool_not_found", "permission_denied", "queue_full", "store_unavailable"})
"""Codes of calls that were refused before anything ran: these are the request's problem, not the tool's outcome."""

_request_decoder = msgspec.json.Decoder(CallRequest)
_stop_decoder = msgspec.json.Decoder(Stop)
_ABSENT = Stop()
_MOST_WHOLE = 100
_MOST_NAMED = 10
_KEY = re.compile("[!-~]{1,512}")

THREAD = Parameter(name="thread", about="The call's thread; needed when two threads used one id.")
CALLER = Parameter(
    name="caller", about="Whose, by the key's id. Others' only for admin, and for approve where they wait.",
    max_length=100, min_length=0,
)  # fmt: skip


def view_of(asked: Asked) -> Runtime:
    """The runtime as the asker may look at it; an admin may look through another's eyes."""
    caller, who = asked.query("caller"), asked.who
    if caller is None:
        return who.sees
    if not who.is_admin:
        if caller == who.id:
            return who.own
        raise Refused("missing_scope", "only scope admin may look at another caller's. Leave `caller` out.")
    return asked.context.runtime.acting_for(caller)


# Making.


async def create(asked: Asked) -> Reply:
    body = await bodies.read(asked)
    request = _checked(body, asked)
    options: dict[str, Any] = {
        "id": request.id,
        "thread": request.thread,
        "timeout": request.timeout,
        "deadline": request.deadline,
        "priority": int(request.priority),
        "request_id": request.request_id,
        "metadata": request.metadata,
    }
    given = bytes(request.arguments)
    arguments = None if given in (b"", b"null") else given
    with traced(asked.headers):
        return await _make(asked, request, arguments, options)


async def _make(asked: Asked, request: CallRequest, arguments: bytes | None, options: dict[str, Any]) -> Reply:
    own = asked.who.own
    if request.wait is True and not request.cancel_on_disconnect:
        result = await own.call(request.tool, arguments, **options)
        asked.scope["clicket.call"] = result.call_id
        return await _outcome(asked, result)
    handle = await own.submit(request.tool, arguments, **options)
    asked.scope["clicket.call"] = handle.id
    if request.wait:
        waited = await _wait(
            asked, handle, None if request.wait is True else request.wait, request.cancel_on_disconnect
        )
        if waited is not None:
            return await _outcome(asked, waited)
    return await _accepted(own, handle, request.tool)


def _checked(body: bytes, asked: Asked) -> CallRequest:
    request = bodies.shaped(body, _request_decoder)
    given = bytes(request.arguments)  # the runtime judges these, and keeps its verdict on record
    outer = body.replace(given, b"0", 1) if given else body
    bodies.no_tricks(outer, asked.context.options.max_body_size)
    key = asked.header(b"idempotency-key")
    if key is not None:
        if request.id is not None and request.id != key:
            raise Refused("conflict", "the body's id and the header Idempotency-Key differ. Send one of them.")
        if not _KEY.fullmatch(key):
            raise Refused("usage", "Idempotency-Key must be 1 to 512 printable ASCII characters without spaces.")
        request = msgspec.structs.replace(request, id=key)
    return request


async def _outcome(asked: Asked, result: ToolResult) -> Reply:
    error = result.error
    if error is not None and error.code in REFUSALS:
        return problem_of_result(error, result.call_id)
    if result.artifact is not None:
        await asked.context.grants.give(asked.who.id, result)
    return Reply(200, result_json(result))


async def _wait(asked: Asked, handle: CallHandle, seconds: float | None, cancel: bool) -> ToolResult | None:
    """The result, or None when the time is over. A client that leaves stops waiting; the call goes on unless told not to."""
    ending = asyncio.ensure_future(handle.result())
    leaving = asyncio.ensure_future(_left(asked)) if cancel else None
    waited = (ending,) if leaving is None else (ending, leaving)
    try:
        await asyncio.wait(waited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            return ending.result()
        if leaving is not None and leaving.done():
            await handle.leave("its client went away")
            raise bodies.Gone
        return None
    finally:
        for each in waited:
            each.cancel()
        await asyncio.gather(*waited, return_exceptions=True)


async def _left(asked: Asked) -> None:
    while (await asked.receive())["type"] != "http.disconnect":
        pass


async def _accepted(own: Runtime, handle: CallHandle, tool: str) -> Reply:
    state = await own.state(handle.id, thread=handle.thread)
    if state.is_terminal:
        error = (await own.get(handle.id, thread=handle.thread)).error
        if error is not None and error.code in REFUSALS:
            return problem_of_result(error, handle.id)
    location = f"/calls/{quote(handle.id, safe='')}"
    if handle.thread != "default":
        location += f"?thread={quote(handle.thread, safe='')}"
    accepted = Accepted(id=handle.id, thread=handle.thread, tool=clean(tool), state=state)
    return json_reply(accepted, 202, (b"location", location.encode("ascii")))


# Looking.


async def find(asked: Asked, *, waiting: bool = True) -> tuple[Runtime, Record]:
    """The call that the asker names and may see, and the view in which it is found. Scope `approve` finds what waits for
    approval, too, unless `waiting` is False: then only what will still be there when it waits no more."""
    id, thread = asked.path("id"), asked.query("thread")
    asked.scope["clicket.call"] = id
    decides, caller = waiting and asked.who.may("approve"), asked.query("caller")
    if not decides or asked.who.is_admin or caller in (None, asked.who.id):
        view = view_of(asked)
        try:
            return view, await view.get(id, thread=thread)
        except NotFound:
            if not decides:
                raise
        except UsageError as several:
            raise await _several(asked, several) from None
    record = await _waiting(asked, id, thread, caller)
    return asked.context.runtime.acting_for(record.caller), record


async def _waiting(asked: Asked, id: str, thread: str | None, caller: str | None) -> Record:
    """Anybody's call of that id that waits for approval. That others have such an id is nobody's business."""
    found = []
    for stored in await asked.context.store.load(id, thread, caller):
        if stored.damaged is None:
            record = read(stored.id, stored.events)
            if record.waiting_for == "approval":
                found.append(record)
    if not found:
        raise NotFound(f"there is no call {id!r}. It may have been swept; `GET /calls` lists what is there.")
    if len(found) > 1:
        raise _which(id, [(record.thread, record.caller) for record in found], " that wait for approval")
    return found[0]


async def _several(asked: Asked, said: UsageError) -> Refused:
    """An id that stands for several calls, each of which the asker may see."""
    id, thread, who = asked.path("id"), asked.query("thread"), asked.who
    found = await asked.context.store.load(id, thread, asked.query("caller") if who.is_admin else who.id)
    first = [stored.events[0].data for stored in found if stored.events and stored.damaged is None]
    places = [(data["thread"], data.get("caller", "")) for data in first]
    return _which(id, places) if len(places) > 1 else Refused("conflict", said.message)


def _which(id: str, places: list[tuple[str, str]], more: str = "") -> Refused:
    shown = [f"thread={thread!r} caller={caller!r}" for thread, caller in sorted(places)[:_MOST_NAMED]]
    names = ["thread="] * (len({thread for thread, _ in places}) > 1) + ["caller="] * (
        len({who for _, who in places}) > 1
    )
    text = f"there are {len(places)} calls {id!r}{more}; pass {' and '.join(names)} to say which. Some: {'; '.join(shown)}."
    return Refused("conflict", text)


async def show(asked: Asked) -> Reply:
    record = (await find(asked))[1]
    if record.artifact is not None:
        await asked.context.grants.give(record.caller, record)
    return Reply(200, record_json(record))


async def listing(asked: Asked) -> Reply:
    waiting, who, caller = asked.query("waiting_for"), asked.who, asked.query("caller")
    decides = waiting == "approval" and who.may("approve")
    if not who.may("read") and waiting != "approval":
        raise Refused(
            "missing_scope", "scope approve lists calls that wait: pass waiting_for=approval. The rest needs read."
        )
    everybody = asked.context.runtime
    view = view_of(asked) if not decides else everybody if caller is None else everybody.acting_for(caller)
    whole, limit = asked.query("full", False), asked.query("limit", 100)
    page = await view.history(
        thread=asked.query("thread"),
        tool=asked.query("tool"),
        state=asked.query("state"),
        since=asked.query("since"),
        active=asked.query("active", False),
        waiting_for=waiting,
        limit=min(limit, _MOST_WHOLE) if whole else limit,
        cursor=asked.query("cursor"),
    )
    return _page(page, whole=whole)


def _page(page: Page, *, whole: bool) -> Reply:
    if whole:
        items = b",".join(record_json(record) for record in page.items)
        cursor = msgspec.json.encode(page.cursor)
        return Reply(200, b'{"items":[' + items + b'],"cursor":' + cursor + b"}")
    return json_reply(Listing(items=[summary_of(record) for record in page.items], cursor=page.cursor))


# Ending.


async def cancel(asked: Asked) -> Reply:
    stop = await bodies.optional_json(asked, _stop_decoder, _ABSENT)
    id = asked.scope["clicket.call"] = asked.path("id")
    view = view_of(asked)
    try:
        handle = await view.handle(id, thread=asked.query("thread"))
    except UsageError as several:
        raise await _several(asked, several) from None
    done = await handle.cancel(stop.reason)
    caller = asked.context.runtime.acting_for(handle.caller)
    if done and handle.caller != asked.who.id:
        await asked.context.runtime.engine.audit.kept(asked.who.name, "call.cancelled", call=id, thread=handle.thread)
    state = await caller.state(id, thread=handle.thread)
    return json_reply(Cancelled(id=id, thread=handle.thread, cancelled=done, state=state))


_STATES = tuple(state.value for state in State)

OPERATIONS = (
    Operation(
        method="POST",
        path="/calls",
        about="Make a call. Answers 202 as soon as it is durable; with `wait` the result, or 202 when the time is over.",
        handler=create,
        scopes=("call",),
        parameters=(
            Parameter(name="Idempotency-Key", about="The same as `id` in the body.", place="header",
                schema={"type": "string", "pattern": f"^{_KEY.pattern}$"},
            ),
        ),
        body=Body(model=CallRequest),
        answers={
            200: Answer(about="The outcome, whatever it is, but for refusals.", model=ToolResult, id_at="call_id"),
            202: Answer(
                about="Accepted: durable, and waiting or running.",
                model=Accepted,
                id_at="id",
                headers={"Location": "Where the call is looked at."},
            ),
        },
        problems=(404, 409, 422, 429),
    ),
    Operation(
        method="GET",
        path="/calls",
        about="Calls, the newest first. Scope `approve` may list what waits for approval, whoever made it.",
        handler=listing,
        scopes=("read", "approve"),
        parameters=(
            Parameter(name="thread", about="Only calls of this thread."),
            Parameter(name="tool", about="Only calls of this tool."),
            Parameter(name="state", about="Only calls in this state.", choices=_STATES),
            Parameter(name="waiting_for", about="Only calls that wait for this.", choices=("approval",)),
            Parameter(name="active", about="Only calls that have not ended.", kind="boolean"),
            Parameter(
                name="since", about="Only calls made at or after this time (seconds since 1970).", kind="number",
                least=0, most=1e11,
            ),
            Parameter(name="limit", about="Calls on a page; 100 if left out.", kind="integer", least=1, most=1_000),
            Parameter(name="cursor", about="What the page before gave.", pattern="^[0-9]{1,18}$", wanted="a cursor that a page gave"),
            Parameter(name="full", about="Whole records, at most 100 on a page.", kind="boolean"),
            CALLER,
        ),
        answers={200: Answer(about="A page of calls.", model=Listing)},
    ),
    Operation(
        method="GET",
        path="/calls/{id}",
        about="Everything known about a call: stages, attempts, events.",
        handler=show,
        scopes=("read", "approve"),
        parameters=(THREAD, CALLER),
        answers={200: Answer(about="The record.", model=Record)},
        problems=(404, 409),
    ),
    Operation(
        method="POST",
        path="/calls/{id}/cancel",
        about="End a call, wherever it runs.",
        handler=cancel,
        scopes=("call",),
        parameters=(THREAD, CALLER),
        body=Body(model=Stop, optional=True),
        answers={200: Answer(about="How it stands now.", model=Cancelled)},
        problems=(404, 409, 422),
    ),
)  # fmt: skip
