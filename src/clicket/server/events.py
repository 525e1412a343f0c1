"""Streams of events (SSE): one call from its first event on, or all calls that the key may see from now on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clicket.server.calls import CALLER, THREAD, find
from clicket.server.feeds import Feeds
from clicket.server.operations import EVENT_STREAM, Answer, Asked, Operation, Parameter
from clicket.server.problems import Refused
from clicket.server.readers import Reader
from clicket.server.replies import Reply, Sent

__all__ = ["Streams", "operations"]

_LAST = "The last id that was read; the stream goes on after it."
_LAST_NUMBER = Parameter(
    name="Last-Event-ID", about=_LAST, place="header", schema={"type": "string", "pattern": "^[0-9]{0,12}$"}
)
_LAST_ID = Parameter(name="Last-Event-ID", about=_LAST, place="header", schema={"type": "string"})


class Streams:
    """The handlers; they share the feeds of one server."""

    def __init__(self) -> None:
        self._feeds = Feeds()

    async def of_call(self, asked: Asked) -> Reply | Sent:
        after = _after(asked)
        view, record = await find(asked, waiting=False)
        context = asked.context
        if record.artifact is not None:
            await context.grants.give(record.caller, record)
        handle = await view.handle(record.id, thread=record.thread)
        async with self._feeds.reading(handle) as feed:
            if record.state.is_terminal:
                await feed.ended.wait()
                if after >= feed.last > 0:  # a browser that comes back after the end is told not to come again
                    return Reply(204, b"", None)
            reader = Reader(asked.scope, after)
            with context.watch.over(asked.scope, reader.turn_away):
                await context.readers.serve(reader, feed, asked.receive, asked.send)
        return Sent()

    async def of_all(self, asked: Asked) -> Sent:
        context, last = asked.context, asked.header(b"last-event-id") or asked.query("after")
        ring = context.ring
        reader = Reader(asked.scope, ring.join(last), _seen_by(asked))
        try:
            with context.watch.over(asked.scope, reader.turn_away):
                await context.readers.serve(reader, ring, asked.receive, asked.send)
        finally:
            ring.leave()
        return Sent()


def _after(asked: Asked) -> int:
    text = asked.header(b"last-event-id")
    if not text:  # some send it empty before the first event
        after: int = asked.query("after", 0)
        return after
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise Refused("usage", f"Last-Event-ID must be the number of an event, not {text[:40]!r}.")
    return int(text)


def _seen_by(asked: Asked) -> Callable[..., bool] | None:
    """Which events a key may see: those of its calls; all; or also the questions that somebody must answer."""
    who: Any = asked.who
    if who.is_admin:
        return None
    decides = who.may("approve")
    return lambda caller, kind: caller == who.id or (decides and kind == "approval_requested")


def operations(streams: Streams) -> tuple[Operation, ...]:
    return (
        Operation(
            method="GET",
            path="/calls/{id}/events",
            about="A call's events: replayed from the first, or after `Last-Event-ID`, then live, ending with the outcome. "
            "`id` is the number, `event` the type, `data` the event.",
            handler=streams.of_call,
            scopes=("read",),
            parameters=(
                THREAD,
                Parameter(
                    name="after", about="The same as Last-Event-ID.", kind="integer", least=0, most=1_000_000_000
                ),
                _LAST_NUMBER,
                CALLER,
            ),
            answers={
                200: Answer(about="Server-sent events.", kind=EVENT_STREAM),
                204: Answer(about="The call has ended, and there is nothing after this number.", kind=""),
            },
            problems=(404, 409),
            tag="events",
        ),
        Operation(
            method="GET",
            path="/events",
            about="Events of all calls that the key may see, from now on or after `Last-Event-ID`. `event: gap` says that some "
            "are not kept any more: load the list of calls again.",
            handler=streams.of_all,
            scopes=("read",),
            parameters=(Parameter(name="after", about="The same as Last-Event-ID.", max_length=64), _LAST_ID),
            answers={200: Answer(about="Server-sent events.", kind=EVENT_STREAM)},
            tag="events",
        ),
    )
