"""Calls that wait for a person: whoever has the scope `approve` sees and decides them, whoever made them."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.model import Record
from clicket.runtime import Runtime
from clicket.server import bodies
from clicket.server.calls import CALLER, THREAD, find
from clicket.server.operations import Answer, Asked, Body, Operation
from clicket.server.problems import Refused
from clicket.server.replies import Reply, json_reply
from clicket.server.shapes import Decided, Decision, Denial

__all__ = ["OPERATIONS"]

_approval = msgspec.json.Decoder(Decision)
_denial = msgspec.json.Decoder(Denial)


async def _is_there(asked: Asked) -> None:
    """Who may not decide is told so of its own calls. Others' are not there for it, whether they wait or not."""
    await find(asked, waiting=False)


async def approve(asked: Asked) -> Reply:
    word = await bodies.optional_json(asked, _approval, Decision())
    view, record = await find(asked)
    edited: dict[str, Any] = {} if word.arguments is None else {"arguments": word.arguments}
    by = asked.who.name
    done = await view.approve(record.id, thread=record.thread, by=by, reason=word.reason, **edited)
    return await _decided(view, record, by, approved=True, done=done)


async def deny(asked: Asked) -> Reply:
    word = await bodies.optional_json(asked, _denial, Denial())
    view, record = await find(asked)
    by = asked.who.name
    done = await view.deny(record.id, thread=record.thread, by=by, reason=word.reason)
    return await _decided(view, record, by, approved=False, done=done)


async def _decided(view: Runtime, record: Record, by: str, *, approved: bool, done: bool) -> Reply:
    if not done:
        raise Refused("not_waiting", f"call {record.id!r} does not wait for approval (any more). Nothing was changed.")
    state = await view.state(record.id, thread=record.thread)
    return json_reply(Decided(id=record.id, thread=record.thread, approved=approved, by=by, state=state))


OPERATIONS = (
    Operation(
        method="POST",
        path="/calls/{id}/approve",
        about="Let a call run that waits for approval, perhaps with other arguments.",
        handler=approve,
        scopes=("approve",),
        unscoped=_is_there,
        parameters=(THREAD, CALLER),
        body=Body(model=Decision, optional=True),
        answers={200: Answer(about="It goes on.", model=Decided)},
        problems=(404, 409, 422),
        tag="approvals",
    ),
    Operation(
        method="POST",
        path="/calls/{id}/deny",
        about="Refuse a call that waits for approval.",
        handler=deny,
        scopes=("approve",),
        unscoped=_is_there,
        parameters=(THREAD, CALLER),
        body=Body(model=Denial, optional=True),
        answers={200: Answer(about="It ended.", model=Decided)},
        problems=(404, 409, 422),
        tag="approvals",
    ),
)
