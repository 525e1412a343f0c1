"""`/agents`: conversations with the server's agents. A thread belongs to the key that began it; other keys see an empty thread."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Literal
from urllib.parse import quote

import msgspec
from msgspec import Meta

from clicket.agents import (
    Agent,
    AgentBusy,
    AgentEvent,
    AgentResult,
    Fork,
    Limits,
    ThreadView,
    TurnDocument,
    UserMessage,
)
from clicket.agents.again import Effects
from clicket.agents.mailbox import When
from clicket.agents.output import Output
from clicket.agents.run_options import taken
from clicket.agents.turn_limits import AnswerEnd, Stopped
from clicket.errors import ClicketError, InvalidInput, UsageError
from clicket.kernel import AgentState
from clicket.model.chat import ChatMessage, Usage
from clicket.model.codec import clean, decode, encode
from clicket.model.files import File, FileRef
from clicket.runtime.agent_config import chosen, default_name
from clicket.runtime.settings import Settings
from clicket.server.call_lookup import CALLER, own_runtime, thread_of
from clicket.server.event_feeds import AgentFeed
from clicket.server.event_stream import EventStreams
from clicket.server.operations import EVENT_STREAM, BodySpec, Operation, ResponseSpec, tagged
from clicket.server.parameters import Parameter, limit_of
from clicket.server.problems import Refused
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader, decode_body
from clicket.server.responses import AlreadySent, Response, json_response
from clicket.server.schemas import Name, Stop, Wait

__all__ = ["AgentHandlers"]

_AFTER = r"^[0-9]{1,12}(-[0-9]{1,12}\.[0-9]{1,12}(\.[0-9]{1,12})?)?$"
_MAX_MESSAGE = 512 * 1024
_MAX_PARTS = 100
Text = Annotated[str, Meta(min_length=1, pattern=r"^\s*[^\x00\s][^\x00]*$")]


class GivenFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of a message: an artifact that the caller may read. Its first bytes, or its name, say what it is, if `media_type` does not."""

    artifact: Annotated[str, Meta(pattern="^sha256-[0-9a-f]{64}$")]
    name: Annotated[str, Meta(max_length=200)] | None = None
    media_type: (
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9.+-]{0,60}/[A-Za-z0-9][A-Za-z0-9.+-]{0,60}$")] | None
    ) = None


Count = Annotated[float, Meta(ge=0, le=1_000_000_000, multiple_of=1)]
Amount = Annotated[float, Meta(ge=0, le=1_000_000_000)]


class GivenLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Of one turn. What is left out, or null, is as the agent has it; none may be above that: 422 `invalid_input`."""

    max_steps: Count | None = None
    max_calls: Count | None = None
    max_tokens: Count | None = None
    max_cost: Amount | None = None
    max_seconds: Amount | None = None
    max_repeats: Annotated[float, Meta(ge=1, le=1_000_000_000, multiple_of=1)] | None = None


class MessageRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A message to an agent. `agent`: its name, if it is not the default one. `wait`: true or seconds to get the result as JSON; 0 or
    false to get 202 at once. `stream`: true to get the events, also if `wait` is given; false to get none. `turn`: the number of the
    turn, or `id`: a text of yours for it: a request whose response was lost can be sent again, and does not begin another turn. A thread
    has one turn for one id, as long as the thread is kept; with another message: 409 `conflict`. `output`: a JSON Schema that the
    answer must fit. `tools`: the only ones that the agent may use in this turn. `limits`: in place of higher ones of the agent.
    `metadata`: for the agent's middleware.
    `when`: store the message and answer 202: `next`, it is a turn of its own after the running one; `now`, the running turn reads it
    with its next request; `interrupt`, the running turn is stopped first.
    `message`: a text, or a list of texts and files in their order; a file is uploaded before, by `POST /artifacts`."""

    message: Text | Annotated[list[Text | GivenFile], Meta(min_length=1, max_length=_MAX_PARTS)]
    agent: Name | None = None
    wait: bool | Wait | None = None
    stream: bool | None = None
    turn: Annotated[float, Meta(ge=1, le=999_999_999, multiple_of=1)] | None = None
    id: Name | None = None
    output: dict[str, Any] | None = None
    tools: list[Name] | None = None
    limits: GivenLimits | None = None
    metadata: dict[str, Any] | None = None
    when: When | None = None


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`agent`: its name, if it is not the default one. `after`: the number of the last turn that the fork has; all that have ended if left
    out. `step`: it also has the next turn up to the results of this step. `to`: the name of the new thread; sent again with the same name
    it is the same fork."""

    agent: Name | None = None
    after: Annotated[float, Meta(ge=0, le=999_999_999, multiple_of=1)] | None = None
    step: Annotated[float, Meta(ge=1, le=999_999_999, multiple_of=1)] | None = None
    to: Name | None = None


class RerunRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`turn`: the one that is run again. `system`: instructions in place of those that it had. `effects`: what becomes of tool calls that
    are not on record: `recorded`, they are refused; `ask`, a person is asked; `live`, they run. `to`: the name of the fork in which it
    runs."""

    turn: Annotated[float, Meta(ge=1, le=999_999_999, multiple_of=1)]
    agent: Name | None = None
    system: Annotated[str, Meta(max_length=_MAX_MESSAGE)] | None = None
    effects: Effects = "recorded"
    to: Name | None = None


class ForkTree(msgspec.Struct, frozen=True, kw_only=True):
    """The forks of a thread, the oldest first, each with its own forks."""

    agent: str
    thread: str
    items: list[Fork]


class TurnResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a turn ended. `agent`: the one that answered, also if the turn was handed to it. `messages` are the thread's, the turn's own
    from place `begins` on; `error` says why `state` is error."""

    agent: str
    thread: str
    turn: int
    state: AgentState
    stopped: Stopped | None
    ended: AnswerEnd | None
    value: Any
    """The answer of the type that the agent asks for, as plain JSON."""
    text: str
    steps: int
    calls: int
    usage: Usage
    messages: list[ChatMessage]
    begins: int
    plan: dict[str, Any] | None
    error: str


class TurnBegun(msgspec.Struct, frozen=True, kw_only=True):
    """The turn is durable, and goes on if the client leaves. `Location` names the thread."""

    agent: str
    thread: str
    turn: int
    state: Literal["running"] = "running"


class MessageStored(msgspec.Struct, frozen=True, kw_only=True):
    """The message is durable. `turn`: the number of the turn that has taken it; null until one has."""

    agent: str
    thread: str
    id: str
    turn: int | None


class WaitingMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message that waits for a turn. `at`: when it was sent, in seconds since the epoch."""

    id: str
    text: str
    when: When
    at: float
    thread: str
    files: list[FileRef]


class MessageQueue(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a thread that wait for a turn, in the order in which turns take them."""

    agent: str
    thread: str
    items: list[WaitingMessage]


class TakenBack(msgspec.Struct, frozen=True, kw_only=True):
    """`removed`: the message waited, and no turn reads it; false: a turn has taken it, or there is none."""

    removed: bool


class TurnPage(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that have ended, the oldest first, and their messages. `after` fetches the next page; null on the last."""

    agent: str
    thread: str
    messages: list[ChatMessage]
    turns: list[TurnDocument]
    after: int | None


class Stopping(msgspec.Struct, frozen=True, kw_only=True):
    """`stopped`: a turn was under way, and is being stopped; false: there was none."""

    stopped: bool


class AgentInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An agent of this server. `default`: requests that name no agent go to it. `limits` are those of one turn."""

    name: str
    kind: str
    default: bool
    limits: Limits


class AgentList(msgspec.Struct, frozen=True, kw_only=True):
    items: list[AgentInfo]


_NONE = (
    "this server has no agents. Add one to its clicket.toml, and restart it: [agents.helper] with "
    'model = "openai:NAME" (or "anthropic:NAME"; "script:answers.json" plays answers from a file and needs no key).'
)
_AGENT = Parameter(name="agent", description="The agent's name, if it is not the default one.")
_LAST_EVENT_ID = Parameter(
    name="Last-Event-ID",
    description="The last id that was read; the stream goes on after it.",
    source="header",
    schema={"type": "string", "pattern": rf"^$|{_AFTER}"},
)


class AgentHandlers:
    """`agents` by name. When the application starts, it adds those that the settings declare."""

    def __init__(
        self, agents: Mapping[str, Agent], settings: Settings, body_reader: BodyReader, streams: EventStreams
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._body_reader = body_reader
        self._streams = streams

    def _agent(self, request: Request, name: str | None) -> Agent:
        """The agent, acting for the principal, or for the caller that an admin names."""
        if not self._agents:
            raise Refused("no_agent", _NONE)
        try:
            agent = chosen(self._agents, self._settings, name)
        except UsageError as several:
            raise Refused("conflict", several.message) from None
        return agent.acting_for(own_runtime(request))

    def _location(self, request: Request, agent: str, thread: str | None = None) -> tuple[bytes, bytes]:
        path = f"/agents/{quote(thread_of(request) if thread is None else thread, safe='')}"
        if agent != default_name(self._agents, self._settings):
            path += f"?agent={quote(agent, safe='')}"
        return request.location(path)

    async def listing(self, request: Request) -> Response:
        default = default_name(self._agents, self._settings)
        kinds = {"ReActAgent": "react", "PlanExecuteAgent": "plan"}
        listed = [
            AgentInfo(name=name, kind=kinds.get(type(each).__name__, type(each).__name__), default=name == default, limits=each.limits)
            for name, each in self._agents.items()
        ]  # fmt: skip
        return json_response(AgentList(items=listed))

    async def send_message(self, request: Request) -> Response | AlreadySent:
        body = await self._body_reader.read(request)
        message = decode_body(_normalized(body), MessageRequest)
        self._body_reader.refuse_ambiguous(body)
        said: str | list[str | File] = message.message if isinstance(message.message, str) else _parts(message.message)
        if (
            sum(len(part) for part in ([said] if isinstance(said, str) else said) if isinstance(part, str))
            > _MAX_MESSAGE
        ):
            text = f"a message has at most {_MAX_MESSAGE:,} characters. Upload the text (POST /artifacts) for a tool to read it."
            raise Refused("too_large", text)
        thread = thread_of(request)
        agent = self._agent(request, message.agent)
        asked: str | UserMessage = said if isinstance(said, str) else await _kept(agent, said)
        wait = _wait_of(request, message)
        number = None if message.turn is None else int(message.turn)
        options = _options(message, agent.limits)
        if message.when is not None:
            return await self._store(request, agent, message, asked, options)
        try:
            with in_trace(request.headers):
                if wait is None:
                    events = agent.stream(asked, thread=thread, turn=number, id=message.id, **options)
                    first = await anext(events)  # if the turn cannot begin, the response is a problem, not a stream
                    return await self._send(request, events, first)
                turn = await agent.begin(asked, thread=thread, turn=number, id=message.id, **options)
        except AgentBusy as busy:
            waits = busy.details.get("waiting_for")
            why = f", which waits for {waits}" if waits else ""
            text = (
                f"thread {thread!r:.100} has a turn under way{why}, and has one at a time. Wait for its end "
                "(GET /agents/{threadId}/events), end it (POST /agents/{threadId}/stop), or use another thread."
            )
            raise Refused("agent_busy", text) from None
        if wait is True or wait > 0:
            ended = await _ended(agent, thread, turn, None if wait is True else wait)
            if ended is not None:
                return json_response(ended)
        begun = TurnBegun(agent=agent.name, thread=clean(thread), turn=turn)
        return json_response(begun, 202, self._location(request, agent.name))

    async def _store(
        self,
        request: Request,
        agent: Agent,
        message: MessageRequest,
        asked: str | UserMessage,
        options: dict[str, Any],
    ) -> Response:
        """Store a message for the thread, for a turn of its own or for the one that runs."""
        if message.turn is not None or message.stream or message.wait:
            raise Refused(
                "invalid_input", "a message with when is stored and answered at once: leave out turn, wait and stream."
            )
        thread = thread_of(request)
        when: Any = message.when
        with in_trace(request.headers):
            sent = await agent.send(asked, thread=thread, when=when, id=message.id, **options)
        stored = MessageStored(agent=agent.name, thread=clean(thread), id=sent.id, turn=sent.turn)
        return json_response(stored, 202, self._location(request, agent.name))

    async def queued(self, request: Request) -> Response:
        agent = self._agent(request, request.query("agent"))
        thread = thread_of(request)
        items = [
            WaitingMessage(
                id=each.id, text=each.text, when=each.when, at=each.at, thread=clean(thread), files=each.files
            )
            for each in await agent.queued(thread)
        ]
        return json_response(MessageQueue(agent=agent.name, thread=clean(thread), items=items))

    async def unsend(self, request: Request) -> Response:
        agent = self._agent(request, request.query("agent"))
        return json_response(TakenBack(removed=await agent.unsend(request.path("messageId"), thread_of(request))))

    async def stop(self, request: Request) -> Response:
        body = await self._body_reader.optional_json(request, Stop)
        thread = thread_of(request)
        stopped = await self._agent(request, request.query("agent")).stop(thread, body.reason)
        return json_response(Stopping(stopped=stopped))

    async def fork(self, request: Request) -> Response:
        given = await self._body_reader.optional_json(request, ForkRequest)
        agent = self._agent(request, given.agent)
        after, step = _whole(given.after), _whole(given.step)
        view = await agent.fork(thread_of(request), after=after, step=step, to=given.to)
        return json_response(view, 201, self._location(request, agent.name, view.thread))

    async def forks(self, request: Request) -> Response:
        agent = self._agent(request, request.query("agent"))
        thread = thread_of(request)
        return json_response(ForkTree(agent=agent.name, thread=clean(thread), items=await agent.forks(thread)))

    async def rerun(self, request: Request) -> Response:
        given = await self._body_reader.json(request, RerunRequest)
        agent = self._agent(request, given.agent)
        turn = int(given.turn)
        with in_trace(request.headers):
            view = await agent.begin_rerun(
                thread_of(request), turn=turn, system=given.system, effects=given.effects, to=given.to
            )
        begun = TurnBegun(agent=agent.name, thread=clean(view.thread), turn=turn)
        return json_response(begun, 202, self._location(request, agent.name, view.thread))

    async def resume(self, request: Request) -> Response:
        agent = self._agent(request, request.query("agent"))
        thread = thread_of(request)
        turn = await agent.take_up(thread)
        if turn is None:
            raise Refused(
                "conflict", f"thread {thread!r:.100} has no turn that was interrupted, or that a fork has up to a step."
            )
        return json_response(TurnBegun(agent=agent.name, thread=clean(thread), turn=turn), 202)

    async def state(self, request: Request) -> Response:
        return json_response(await self._agent(request, request.query("agent")).look(thread_of(request)))

    async def history(self, request: Request) -> Response:
        agent = self._agent(request, request.query("agent"))
        thread = thread_of(request)
        page = await agent.history(thread, after=request.query("after", 0), limit=request.query("limit", 100))
        messages = [message for turn in page.turns for message in turn.messages]
        return json_response(
            TurnPage(agent=agent.name, thread=clean(thread), messages=messages, turns=page.turns, after=page.after)
        )

    async def events(self, request: Request) -> AlreadySent:
        after = request.header(b"last-event-id") or request.query("after", "")
        if after and not re.fullmatch(_AFTER, after):
            raise Refused("usage", f"Last-Event-ID must be the id of an event, like 3-7.1, not {after[:40]!r}.")
        if after.isdecimal() and after.isascii():
            after = f"{int(after[:12]) + 1}-0.0"  # from the beginning of the next turn
        agent = self._agent(request, request.query("agent"))
        thread = thread_of(request)
        following: AsyncIterator[AgentEvent] = agent.events(thread, after=after, follow=request.query("follow", True))
        return await self._send(request, following)

    async def _send(
        self, request: Request, events: AsyncIterator[AgentEvent], first: AgentEvent | None = None
    ) -> AlreadySent:
        feed = AgentFeed(events, first)
        try:
            return await self._streams.send(request, feed)
        finally:
            await feed.close()

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "agents",
            Operation(
                route="POST /agents/{threadId}/messages",
                description="Send a message to an agent: one turn, which goes on also when the client leaves. The response is a stream "
                "of its events (`id` where it is on record, `event` the type, `data` the event, `final` or `error` last), unless "
                "`Accept` asks for JSON alone, or `wait` or `stream` say otherwise. A thread has one turn at a time: 409 `agent_busy`.",
                handler=self.send_message,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=MessageRequest),
                responses={
                    200: ResponseSpec(
                        description="The turn as it happens, or how it ended.", schema=TurnResult, stream=True, events=AgentEvent
                    ),
                    202: ResponseSpec(
                        description="It has begun, and goes on; or, with `when`, the message is stored.",
                        schema=TurnBegun, or_schema=MessageStored, headers={"Location": "Where the thread is looked at."},
                    ),
                },
                problems=(404, 409, 422),
            ),
            Operation(
                route="GET /agents/{threadId}/messages",
                description="The turns of a thread that are over, with their messages. A thread without turns has none.",
                handler=self.history,
                scopes=("read",),
                parameters=(
                    Parameter(name="after", description="Turns after this number.", kind="integer", minimum=0, maximum=999_999_999),
                    limit_of("Turns"),
                    _AGENT,
                    CALLER,
                ),
                responses={200: ResponseSpec(description="A page of turns.", schema=TurnPage)},
                problems=(404, 409),
            ),
            Operation(
                route="GET /agents/{threadId}/queue",
                description="The messages of a thread that were sent with `when` and that no turn has taken yet.",
                handler=self.queued,
                scopes=("read",),
                parameters=(_AGENT, CALLER),
                responses={200: ResponseSpec(description="The messages.", schema=MessageQueue)},
                problems=(404, 409),
            ),
            Operation(
                route="DELETE /agents/{threadId}/messages/{messageId}",
                description="Take a message back that waits for a turn.",
                handler=self.unsend,
                scopes=("call",),
                parameters=(_AGENT, CALLER),
                responses={200: ResponseSpec(description="Whether it waited.", schema=TakenBack)},
                problems=(404, 409),
            ),
            Operation(
                route="GET /agents/{threadId}",
                description="A thread's state (idle, running, finished or error), its last answer, plan and usage, and which of its "
                "calls wait for approval. A thread without turns is idle.",
                handler=self.state,
                scopes=("read",),
                parameters=(_AGENT, CALLER),
                responses={200: ResponseSpec(description="The thread.", schema=ThreadView)},
                problems=(404, 409),
            ),
            Operation(
                route="GET /agents/{threadId}/events",
                description="A thread's events: those of its last turn, or all after `Last-Event-ID`, then live ones, across turns, "
                "without an end. After a reload, a page reads the history, then the events with `after` = the number of turns that it "
                "has. `event: broken` says that the stream cannot go on; it is not an event of the agent.",
                handler=self.events,
                scopes=("read",),
                parameters=(
                    Parameter(
                        name="after", description="The same as Last-Event-ID; or the number of a turn, for all that comes after it.",
                        pattern=_AFTER, expected="an event's id like 3-7.1, or a turn's number",
                    ),
                    _LAST_EVENT_ID,
                    Parameter(name="follow", description="false: end with the turn under way, or at once.", kind="boolean"),
                    _AGENT,
                    CALLER,
                ),
                responses={200: ResponseSpec(description="Server-sent events.", media_type=EVENT_STREAM, events=AgentEvent)},
                problems=(404, 409),
            ),
            Operation(
                route="POST /agents/{threadId}/stop",
                description="Stop the turn under way, in whatever process it runs. What it did stays on record; the thread can go on.",
                handler=self.stop,
                scopes=("call",),
                parameters=(_AGENT, CALLER),
                body=BodySpec(schema=Stop, optional=True),
                responses={200: ResponseSpec(description="Whether there was one.", schema=Stopping)},
                problems=(404, 409),
            ),
            Operation(
                route="POST /agents/{threadId}/fork",
                description="Make a new thread with the turns of this one up to a number, and with `step` also the next turn up to the "
                "results of that step, which `POST /agents/{threadId}/resume` of the new thread continues. The old thread is not changed.",
                handler=self.fork,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=ForkRequest, optional=True),
                responses={
                    201: ResponseSpec(
                        description="The new thread.", schema=ThreadView, headers={"Location": "Where the new thread is looked at."}
                    )
                },
                problems=(404, 409, 422),
            ),
            Operation(
                route="GET /agents/{threadId}/forks",
                description="The forks of a thread, and theirs: a tree.",
                handler=self.forks,
                scopes=("read",),
                parameters=(_AGENT, CALLER),
                responses={200: ResponseSpec(description="The forks.", schema=ForkTree)},
                problems=(404, 409),
            ),
            Operation(
                route="POST /agents/{threadId}/rerun",
                description="Run a turn again, in a fork of the thread before it. Tool calls on record get their recorded outcomes, "
                "and do not run.",
                handler=self.rerun,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=RerunRequest),
                responses={
                    202: ResponseSpec(
                        description="The turn has begun in the fork.", schema=TurnBegun,
                        headers={"Location": "Where the fork is looked at."},
                    )
                },
                problems=(404, 409, 422),
            ),
            Operation(
                route="POST /agents/{threadId}/resume",
                description="Continue a turn that a fork has up to a step, or that a crash interrupted. Its events are at "
                "`GET /agents/{threadId}/events`.",
                handler=self.resume,
                scopes=("call",),
                parameters=(_AGENT, CALLER),
                responses={202: ResponseSpec(description="The turn goes on.", schema=TurnBegun)},
                problems=(404, 409),
            ),
            Operation(
                route="GET /agents",
                description="The agents of this server.",
                handler=self.listing,
                scopes=("read",),
                responses={200: ResponseSpec(description="Each with its limits.", schema=AgentList)},
            ),
        )  # fmt: skip


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _normalized(body: bytes) -> bytes:
    """Accepts a message in the form of model APIs, too: `{"role": "user", "content": "…"}`."""
    if b'"content"' not in body:
        return body
    try:
        given = decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):  # the decoder reports what is wrong with it
        return body
    if type(given) is not dict or "content" not in given or "message" in given or given.get("role", "user") != "user":
        return body
    return encode(
        {**{name: given[name] for name in given if name not in ("role", "content")}, "message": given["content"]}
    )


def _parts(given: list[str | GivenFile]) -> list[str | File]:
    return [part if isinstance(part, str) else File(part.artifact, part.media_type, name=part.name) for part in given]


async def _kept(agent: Agent, said: list[str | File]) -> UserMessage:
    try:
        return await agent.keep_files(said)
    except UsageError as error:  # an artifact that the caller may not read, or too many files
        raise InvalidInput([{"path": "/message", "message": error.message}], whole="(body)") from None


def _wait_of(request: Request, message: MessageRequest) -> bool | float | None:
    """True or seconds: wait for the result; False: answer at once; None: stream the events."""
    if message.stream:
        return None
    if message.wait is not None:
        return message.wait
    if message.stream is False:
        return False
    accepted = (request.header(b"accept") or "").lower()
    return True if "application/json" in accepted and EVENT_STREAM not in accepted else None


def _options(message: MessageRequest, limits: Limits) -> dict[str, Any]:
    """Of the turn. They cannot widen what the agent may do."""
    given: dict[str, Any] = {"tools": message.tools, "metadata": message.metadata}
    if message.limits is not None:
        given["limits"] = _narrowed(limits, message.limits)
    options = {name: value for name, value in given.items() if value is not None}
    try:
        taken(options)
        if message.output is not None:
            options["output"] = Output.from_schema(message.output)
    except UsageError as error:
        raise Refused("invalid_input", error.message) from None
    return options


def _narrowed(limits: Limits, given: GivenLimits) -> Limits:
    less: dict[str, float] = {}
    for name in given.__struct_fields__:
        value, most = getattr(given, name), getattr(limits, name)
        if value is None:
            continue
        if most is not None and value > most:
            text = f"limits: {name} is {value:g}, and the agent allows {most:g}. A request can only lower the limits of an agent:"
            raise Refused("invalid_input", f"{text} leave it out, or give at most {most:g}.")
        less[name] = value if name in ("max_cost", "max_seconds") else int(value)
    return msgspec.structs.replace(limits, **less)


async def _ended(agent: Agent, thread: str, turn: int, seconds: float | None) -> TurnResult | None:
    """How a turn ended; None if it has not ended after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            result = await agent.wait(thread, turn)
    except TimeoutError:
        return None
    except ClicketError:
        page = await agent.history(thread, after=turn - 1, limit=1)
        if not page.turns or page.turns[0].turn != turn or page.turns[0].state is not AgentState.ERROR:
            raise
        return await _failed(agent, thread, page.turns[0])
    assert result is not None
    return _result(result)


def _result(result: AgentResult) -> TurnResult:
    return TurnResult(error="", **{each: getattr(result, each) for each in AgentResult.__struct_fields__})


async def _failed(agent: Agent, thread: str, document: TurnDocument) -> TurnResult:
    messages: list[ChatMessage] = []
    after: int | None = 0
    while after is not None and after < document.turn:
        page = await agent.history(thread, after=after, limit=1_000)
        messages += [message for turn in page.turns if turn.turn <= document.turn for message in turn.messages]
        after = page.after
    return TurnResult(
        agent=document.agent or agent.name,
        thread=thread,
        turn=document.turn,
        state=document.state,
        stopped=None,
        value=None,
        ended=None,
        text=document.text,
        steps=document.steps,
        calls=document.calls,
        usage=document.usage,
        messages=messages,
        begins=max(len(messages) - len(document.messages), 0),
        plan=document.plan,
        error=document.error,
    )
