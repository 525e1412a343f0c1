"""`POST /ag-ui/{agent}`: one run of AG-UI. A thread of AG-UI is a thread of the agent, and belongs to the key that began it.

A run begins a turn, continues one that waits, or follows one that it began before. The turn goes on if the client disconnects.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

from clicket.agents import Agent, AgentBusy, AgentState
from clicket.errors import ClicketError, Conflict, InvalidInput, NotFound, UsageError
from clicket.model.codec import decode
from clicket.model.files import File
from clicket.model.names import FRONTEND
from clicket.model.ports import Store
from clicket.runtime.agent_config import chosen
from clicket.runtime.calls.external_calls import complete_own
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.server.ag_ui import run_input, wire
from clicket.server.ag_ui.interrupts import check_resume, decide
from clicket.server.ag_ui.run_input import RunAgentInput
from clicket.server.ag_ui.run_stream import RunStream, refused_run
from clicket.server.call_lookup import CALLER, own_runtime
from clicket.server.event_feeds import FrameFeed, client_error
from clicket.server.event_stream import EventStreams
from clicket.server.operations import EVENT_STREAM, BodySpec, Operation, ResponseSpec, tagged
from clicket.server.problems import Refused
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import AlreadySent
from clicket.server.turn_follower import waiting_now
from clicket.server.turn_questions import asked_from
from clicket.server.turn_requests import Asked, ThreadRequests, TurnRequest
from clicket.server.waits import Wait, wait_number

__all__ = ["AgUiHandlers"]

_SHUTDOWN = wire.frame(wire.run_error("the server shuts down. Send the same run again.", "shutting_down"))
_UNAUTHORIZED = wire.frame(wire.run_error("the key was revoked, or its time is over.", "unauthorized"))


class _BrokenRule(Exception):
    """The input breaks a rule for interrupts."""

    def __init__(self, error: ClicketError) -> None:
        super().__init__(error.message)
        self.error = error


class AgUiHandlers:
    def __init__(
        self,
        agents: Mapping[str, Agent],
        settings: Settings,
        body_reader: BodyReader,
        streams: EventStreams,
        store: Callable[[], Store],
    ) -> None:
        self._agents = agents
        self._settings = settings
        self._body_reader = body_reader
        self._streams = streams
        self._store = store

    async def run(self, request: Request) -> AlreadySent:
        agent = chosen(self._agents, self._settings, request.path("agent"))
        body = await self._body_reader.read(request)
        given = self._body_reader.decoded(body, RunAgentInput)
        runtime = own_runtime(request)
        agent = agent.acting_for(runtime)
        requests = ThreadRequests(self._store, "ag-ui", agent, runtime.host.caller, given.thread_id)
        with agent.listening(given.thread_id) as reader:  # before the turn begins, so that its first answer is streamed
            try:
                with in_trace(request.headers):
                    turn, elsewhere = await self._started(request, agent, runtime, requests, given)
            except _BrokenRule as broken:
                return await self._send(request, refused_run(given, broken.error))
            stream = RunStream(
                agent,
                runtime,
                requests,
                given,
                decode(body)["messages"],
                turn,
                elsewhere,
                may_read=request.principal.may("read"),
                reader=reader,
            )
            on_left = partial(agent.stop, given.thread_id, "the client disconnected")
            return await self._send(request, stream.events(), on_left if given.stop_on_disconnect else None)

    async def _started(
        self, request: Request, agent: Agent, runtime: Runtime, requests: ThreadRequests, given: RunAgentInput
    ) -> tuple[TurnRequest | None, frozenset[Wait]]:
        """The turn that the run is about; None: there is none to run. And the questions that another person decides."""
        message = run_input.new_message(given)
        if message is not None and not given.resume:
            known = await requests.find(given.run_id)
            if known is None or known.digest:
                return await self._begun(agent, runtime, requests, given, message), frozenset()
        known = await requests.find(given.run_id)
        if known is not None:
            return known, frozenset()
        view = await agent.look(given.thread_id)
        if view.state is not AgentState.RUNNING:
            if given.resume:
                raise _BrokenRule(Refused("not_waiting", "the thread has no turn that waits. Send a message."))
            _need_read(request)
            return None, frozenset()
        turn = view.turns + 1
        if await requests.last_of(turn) is None:  # the turn was begun elsewhere: the run shows it from its beginning
            _need_read(request)
        await self._take_results(runtime, requests, given, turn)
        elsewhere = await self._resume(request, agent, runtime, requests, given, turn)
        return await requests.join(given.run_id, turn), elsewhere

    async def _begun(
        self,
        agent: Agent,
        runtime: Runtime,
        requests: ThreadRequests,
        given: RunAgentInput,
        message: tuple[str, list[str | File]],
    ) -> TurnRequest:
        tools = run_input.offers(given)
        for tool in tools:
            if runtime.host.installed(tool.name) is not None:
                text = f"this server has a tool {tool.name!r} of its own. Give yours another name"
                raise InvalidInput([{"path": "/tools", "message": text}], whole="(body)")
        try:
            said = await agent.keep_files(message[1])
        except UsageError as error:
            raise InvalidInput([{"path": "/messages", "message": error.message}], whole="(body)") from None
        try:
            return await requests.begin(given.run_id, said, message[0], tools)
        except AgentBusy:
            waiting = await _open_interrupts(agent, runtime, requests, given.thread_id)
            if waiting:
                ids = ", ".join(waiting)
                raise _BrokenRule(
                    Conflict(f"the thread waits for answers to its interrupts: {ids}. Answer them in `resume`.")
                ) from None
            text = (
                f"thread {given.thread_id!r:.100} has a turn under way, and has one at a time. Wait for its end, end it "
                "(POST /agents/{threadId}/stop), or use another thread."
            )
            raise Refused("agent_busy", text) from None

    async def _take_results(self, runtime: Runtime, requests: ThreadRequests, given: RunAgentInput, turn: int) -> None:
        """Results of tools that the client ran. Others, and those that came before, are of the past."""
        pending = {each.use_id: each for each in await requests.asked_in(turn) if each.use_id}
        for result in run_input.tool_results(given):
            asked = pending.get(result.use_id)
            if asked is None:
                continue
            record = await runtime.get(asked.id, thread=asked.thread)
            if record.tool != FRONTEND:
                raise _BrokenRule(
                    Refused(
                        "permission_denied",
                        f"tool call {result.use_id!r:.100} runs on the server: its result does not come from the client.",
                    )
                )
            if record.waiting_for == "external":
                await complete_own(runtime, asked.id, result.content, thread=asked.thread, error=result.error)

    async def _resume(
        self,
        request: Request,
        agent: Agent,
        runtime: Runtime,
        requests: ThreadRequests,
        given: RunAgentInput,
        turn: int,
    ) -> frozenset[Wait]:
        """Apply the client's answers. Without any, the run follows the turn, and gets its open interrupts again."""
        if not given.resume:
            return frozenset()
        asked, open_ids = await _asked(agent, runtime, requests, given.thread_id, turn)
        elsewhere: set[Wait] = set()
        try:
            message = run_input.new_message(given)
            if message is not None and message[0] not in (await requests.message_ids()).values():
                raise Conflict("a run answers interrupts or brings a message. Answer first, then send the message.")
            check_resume(given.resume, asked, open_ids)
            for entry in given.resume:
                question = asked[entry.interrupt_id]
                if not await decide(runtime, request.principal, entry, question):
                    elsewhere.add((question.id, question.number))
        except ClicketError as error:
            raise _BrokenRule(error) from None
        return frozenset(elsewhere)

    async def _send(
        self,
        request: Request,
        events: AsyncIterator[wire.Event],
        on_left: Callable[[], Awaitable[object]] | None = None,
    ) -> AlreadySent:
        feed = FrameFeed(events, wire.frame, _broken)
        try:
            return await self._streams.send(request, feed, on_shutdown=_SHUTDOWN, on_unauthorized=_UNAUTHORIZED)
        finally:
            await feed.close()
            if on_left is not None and not feed.ended and not self._streams.closing:
                await on_left()

    def operations(self) -> tuple[Operation, ...]:
        return tagged(
            "agents",
            Operation(
                route="POST /ag-ui/{agent}",
                description="Run an agent over AG-UI 1.0. The response is a stream of the protocol's events. A thread of AG-UI is a "
                "thread of the agent. The same `runId` again follows its turn and begins no other; the turn goes on if the client "
                "disconnects. A call that waits for approval ends the run with an interrupt, which `resume` of the next run answers.",
                handler=self.run,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=RunAgentInput),
                responses={200: ResponseSpec(description="Server-sent events of AG-UI.", media_type=EVENT_STREAM)},
                problems=(404, 409, 422),
            ),
        )


def _need_read(request: Request) -> None:
    if not request.principal.may("read"):
        text = "this run shows what others made in the thread, and the key lacks the scope read. Send a message, or use another key."
        raise Refused("missing_scope", text, needed=("read",))


def _broken(error: Exception) -> bytes:
    code, detail = client_error(error)
    return wire.frame(wire.run_error(detail, code))


async def _asked(
    agent: Agent, runtime: Runtime, requests: ThreadRequests, thread: str, turn: int
) -> tuple[dict[str, Asked], frozenset[str]]:
    """The questions of a turn that were reported to the client, or that wait now; and which of them wait for a person now."""
    now = [asked_from(waiting) for waiting in await waiting_now(agent, runtime, thread, turn)]
    asked = {each.question_id: each for each in [*now, *await requests.asked_in(turn)]}
    open_ids: set[str] = set()
    for id, each in list(asked.items()):
        try:
            record = await runtime.get(each.id, thread=each.thread)
        except NotFound:
            continue
        if record.tool == FRONTEND:
            del asked[id]
        elif record.waiting_for in ("approval", "credential") and wait_number(record) == each.number:
            open_ids.add(id)
    return asked, frozenset(open_ids)


async def _open_interrupts(agent: Agent, runtime: Runtime, requests: ThreadRequests, thread: str) -> list[str]:
    turn = (await agent.look(thread)).turns + 1
    return sorted((await _asked(agent, runtime, requests, thread, turn))[1])
