"""`/calls/{id}/events` and `/events`: the events of one call, or of all calls that the key may see."""

from __future__ import annotations

from collections.abc import Callable

from clicket.kernel import State
from clicket.model import Event
from clicket.server.call_lookup import CALLER, THREAD, CallLookup
from clicket.server.event_feeds import CallFeeds
from clicket.server.event_log import EventLog, LoggedEvent
from clicket.server.event_stream import JSON_LINES, EventStreams
from clicket.server.operations import EVENT_STREAM, Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter
from clicket.server.problems import Refused
from clicket.server.request import Request
from clicket.server.responses import AlreadySent, Response

__all__ = ["EventHandlers"]

_STATE = "|".join(State)
_LAST = "The last id that was read; the stream goes on after it."
_LAST_NUMBER = Parameter(
    name="Last-Event-ID", description=_LAST, source="header", schema={"type": "string", "pattern": "^[0-9]{0,12}$"}
)
_LAST_ID = Parameter(name="Last-Event-ID", description=_LAST, source="header", schema={"type": "string"})


class FeedEvent(Event, frozen=True, gc=False):
    """An event of any call: it also says of which."""

    thread: str
    caller: str
    tool: str


class EventHandlers:
    def __init__(self, lookup: CallLookup, event_log: EventLog, streams: EventStreams) -> None:
        self._lookup = lookup
        self._event_log = event_log
        self._streams = streams
        self._feeds = CallFeeds()

    async def of_call(self, request: Request) -> Response | AlreadySent:
        after = _after(request)
        view, record = await self._lookup.find(request, waiting=False)
        handle = await view.handle(record.id, thread=record.thread)
        async with self._feeds.reading(handle) as feed:
            if record.state.is_terminal:
                await feed.ended.wait()
                if after >= feed.last > 0:  # 204 tells a browser not to reconnect any more
                    return Response(204, b"", None)
            return await self._streams.send(request, feed, after)

    async def of_all(self, request: Request) -> AlreadySent:
        last = request.header(b"last-event-id") or request.query("after")
        sees = _seen_by(request)
        lines = _wants_lines(request)
        after = self._event_log.join(last)
        cursor = self._event_log.cursor(after)
        try:
            # A client that has read nothing yet can go on from here, too.
            first = (
                b"event: stream\nid: %s\ndata: {}\n\n" % cursor.encode() if lines and after >= 0 else b": stream\n\n"
            )
            return await self._streams.send(request, self._event_log, after, sees, lines=lines, first=first)
        finally:
            self._event_log.leave()

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "events",
            Operation(
                route="GET /calls/{id}/events",
                description="A call's events: replayed from the first, or after `Last-Event-ID`, then live, ending with the outcome. "
                "`id` is the number, `event` the type, `data` the event.",
                handler=self.of_call,
                scopes=("read",),
                parameters=(
                    THREAD,
                    Parameter(
                        name="after",
                        description="The same as Last-Event-ID.",
                        kind="integer",
                        minimum=0,
                        maximum=1_000_000_000,
                    ),
                    _LAST_NUMBER,
                    CALLER,
                ),
                responses={
                    200: ResponseSpec(description="Server-sent events.", media_type=EVENT_STREAM, events=Event),
                    204: ResponseSpec(
                        description="The call has ended, and there is nothing after this number.", media_type=""
                    ),
                },
                problems=(404, 409),
            ),
            Operation(
                route="GET /events",
                description="Events of all calls that the key may see, from now on or after `Last-Event-ID`: server-sent events, or lines "
                "of JSON with `format=jsonl` or `Accept: application/x-ndjson`, each with its `cursor` for `after`. `gap` says that some "
                "events are missing: load the list of calls again. Other lines are `stream` (the first), `heartbeat`, `shutdown` and "
                "`error`.",
                handler=self.of_all,
                scopes=("read",),
                parameters=(
                    Parameter(name="after", description="The same as Last-Event-ID.", max_length=64),
                    Parameter(name="thread", description="Only events of this thread's calls."),
                    Parameter(name="tool", description="Only events of this tool's calls."),
                    Parameter(name="id", description="Only events of calls with this id."),
                    Parameter(name="types", description="Only events of these types, with commas between them."),
                    Parameter(
                        name="state",
                        description="Only events after which the call is in one of these states, with commas between them.",
                        pattern=f"^({_STATE})(,({_STATE}))*$",
                        expected=f"states with commas between them, of {', '.join(State)}",
                    ),
                    Parameter(name="format", description="`sse` if left out.", choices=("sse", "jsonl")),
                    Parameter(name="caller", description="Only events of this caller's calls; for admins."),
                    _LAST_ID,
                ),
                responses={
                    200: ResponseSpec(
                        description="The events, as long as the client reads.",
                        media_type=EVENT_STREAM,
                        also=JSON_LINES,
                        events=FeedEvent,
                    )
                },
            ),
        )


def _after(request: Request) -> int:
    text = request.header(b"last-event-id")
    if not text:  # some clients send it empty before the first event
        after: int = request.query("after", 0)
        return after
    if not text.isascii() or not text.isdecimal() or len(text) > 12:
        raise Refused("usage", f"Last-Event-ID must be the number of an event, not {text[:40]!r}.")
    return int(text)


def _seen_by(request: Request) -> Callable[[LoggedEvent], bool] | None:
    """Which events a key gets: an admin all, others those of their own calls, and with `approve` every request for approval. The query
    may ask for fewer."""
    principal = request.principal
    asked_for = _query_filter(request)
    if principal.is_admin:
        return asked_for
    decides = principal.may("approve")

    def sees(event: LoggedEvent) -> bool:
        mine = event.caller == principal.id or (decides and event.type == "approval_requested")
        return mine and (asked_for is None or asked_for(event))

    return sees


def _wants_lines(request: Request) -> bool:
    format = request.query("format")
    return format == "jsonl" or (format is None and JSON_LINES in (request.header(b"accept") or "").lower())


def _query_filter(request: Request) -> Callable[[LoggedEvent], bool] | None:
    thread, tool, id, caller = (request.query(name) for name in ("thread", "tool", "id", "caller"))
    types = None if (text := request.query("types")) is None else frozenset(text.split(","))
    states = None if (text := request.query("state")) is None else frozenset(text.split(","))
    if all(each is None for each in (thread, tool, id, caller, types, states)):
        return None
    return lambda event: (
        (thread is None or event.thread == thread)
        and (tool is None or event.tool == tool)
        and (id is None or event.call_id == id)
        and (caller is None or event.caller == caller)
        and (types is None or event.type in types)
        and (states is None or event.state in states)
    )
