"""`POST /ai-sdk/{agent}` and `GET /ai-sdk/{agent}/{threadId}/stream`: the UI message stream of Vercel's AI SDK.

A chat of the AI SDK is a thread of the agent, and belongs to the key that began it. What the client sends of the past is not read. The turn
goes on if the client disconnects; the second route streams it again from its beginning.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from clicket.agents import Agent, AgentBusy, AgentState
from clicket.agents.event_feed import FeedReader
from clicket.agents.event_stream import Position, position_of
from clicket.errors import InvalidInput, UsageError
from clicket.model.ports import Store
from clicket.runtime.agent_config import chosen
from clicket.runtime.runtime import Runtime
from clicket.runtime.settings import Settings
from clicket.server.ai_sdk.chat_input import ApprovalAnswer, ChatInput, approvals, new_message
from clicket.server.ai_sdk.translator import Chunk, Translator, frame, message_id
from clicket.server.call_lookup import CALLER, own_runtime, thread_of
from clicket.server.event_feeds import FrameFeed, client_error
from clicket.server.event_stream import EventStreams
from clicket.server.operations import EVENT_STREAM, BodySpec, Operation, ResponseSpec, tagged
from clicket.server.problems import Refused
from clicket.server.request import Request, in_trace
from clicket.server.request_body import BodyReader
from clicket.server.responses import AlreadySent, Response
from clicket.server.turn_follower import Blocked, TurnFollower, waiting_now
from clicket.server.turn_questions import answer, asked_from
from clicket.server.turn_requests import Asked, ThreadRequests

__all__ = ["AiSdkHandlers"]

_HEADERS = ((b"x-vercel-ai-ui-message-stream", b"v1"),)
_SHUTDOWN = frame({"type": "error", "errorText": "The server shuts down. Resume the stream."})
_UNAUTHORIZED = frame({"type": "error", "errorText": "The key was revoked, or its time is over."})
_REGENERATE = "this server does not run a turn again yet (regenerate). Send the message once more as a new one, or begin another thread."


class AiSdkHandlers:
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

    async def chat(self, request: Request) -> AlreadySent:
        agent = chosen(self._agents, self._settings, request.path("agent"))
        body = await self._body_reader.read(request)
        given = self._body_reader.decoded(body, ChatInput)
        if given.trigger == "regenerate-message":
            raise InvalidInput([{"path": "/trigger", "message": _REGENERATE}], whole="(body)")
        runtime = own_runtime(request)
        agent = agent.acting_for(runtime)
        thread = given.id
        with agent.listening(thread) as reader:  # before the turn begins, so that its first answer is streamed
            after: Position | None = None
            message = new_message(given)
            if message is not None:
                with in_trace(request.headers):
                    turn = await _begun(agent, thread, *message)
            else:
                turn = await self._answered(request, agent, runtime, given)
                after = await _last_question(agent, thread, turn, [each.tool_call for each in approvals(given)])
            return await self._send(request, self._chunks(agent, runtime, thread, turn, reader, after))

    async def resume(self, request: Request) -> Response | AlreadySent:
        agent = chosen(self._agents, self._settings, request.path("agent"))
        runtime = own_runtime(request)
        agent = agent.acting_for(runtime)
        thread = thread_of(request)
        with agent.listening(thread) as reader:
            view = await agent.look(thread)
            if view.state is not AgentState.RUNNING:
                return Response(204)
            return await self._send(request, self._chunks(agent, runtime, thread, view.turns + 1, reader))

    async def _answered(self, request: Request, agent: Agent, runtime: Runtime, given: ChatInput) -> int:
        """Apply the client's answers to requests for approval; returns the number of their turn."""
        answers = approvals(given)
        if not answers:
            path = f"/messages/{len(given.messages) - 1}"
            text = "the last message is neither a user's nor has it an answer to a request for approval"
            raise InvalidInput([{"path": path, "message": text}], whole="(body)")
        if not request.principal.may("read"):
            text = "the stream goes on with what others may have made in the thread, and the key lacks the scope read."
            raise Refused("missing_scope", text, needed=("read",))
        view = await agent.look(given.id)
        last = view.turns + (view.state is AgentState.RUNNING)
        turn = next((each for each in (last, last - 1) if message_id(each) == given.messages[-1].id), 0)
        if turn < 1:
            raise Refused(
                "not_waiting", "the answered question is not of the thread's last turn. Read the thread again."
            )
        asked = await self._asked(agent, runtime, given.id, turn)
        for each in answers:
            if each.id not in asked:
                raise Refused("not_found", f"this turn has no question {each.id!r:.200}. Nothing more was decided.")
        for each in answers:
            await answer(runtime, request.principal, asked[each.id], _payload(each))
        return turn

    async def _asked(self, agent: Agent, runtime: Runtime, thread: str, turn: int) -> dict[str, Asked]:
        """The questions of a turn that the client was told of, or that are open now."""
        told = await self._requests(agent, runtime, thread).reported(turn)
        now = [asked_from(each) for each in await waiting_now(agent, runtime, thread, turn)]
        return {each.question_id: each for each in [*told, *now]}

    def _requests(self, agent: Agent, runtime: Runtime, thread: str) -> ThreadRequests:
        return ThreadRequests(self._store, "ai-sdk", agent, runtime.host.caller, thread)

    async def _chunks(
        self,
        agent: Agent,
        runtime: Runtime,
        thread: str,
        turn: int,
        reader: FeedReader,
        after: Position | None = None,
    ) -> AsyncIterator[Chunk | None]:
        translator = Translator(turn, after)
        for chunk in translator.begin():
            yield chunk
        follower: Any = TurnFollower(agent, runtime, thread, turn, reader=reader).items()
        async with aclosing(follower):
            async for item in follower:
                if isinstance(item, Blocked):
                    asked = [asked_from(each) for each in item.waiting]
                    await self._requests(agent, runtime, thread).report(turn, asked)
                    for chunk in translator.waits(item.waiting):
                        yield chunk
                    break
                for chunk in translator.take(item):
                    yield chunk
        yield None

    async def _send(self, request: Request, chunks: AsyncIterator[Chunk | None]) -> AlreadySent:
        feed = FrameFeed(chunks, frame, _broken)
        try:
            return await self._streams.send(
                request, feed, on_shutdown=_SHUTDOWN, on_unauthorized=_UNAUTHORIZED, headers=_HEADERS
            )
        finally:
            await feed.close()

    def operations(self) -> tuple[Operation, ...]:
        streamed = ResponseSpec(description="Server-sent events: chunks of a UI message.", media_type=EVENT_STREAM)
        return tagged(
            "agents",
            Operation(
                route="POST /ai-sdk/{agent}",
                description="One turn of an agent as the AI SDK's UI message stream, for `useChat`. The chat's `id` is the thread. The "
                "last of `messages` begins the turn, once for its id, or answers requests for approval; those before it are not read: "
                "the thread has them. The turn goes on if the client disconnects. `regenerate-message` is refused.",
                handler=self.chat,
                scopes=("call",),
                parameters=(CALLER,),
                body=BodySpec(schema=ChatInput),
                responses={200: streamed},
                problems=(404, 409, 422),
            ),
            Operation(
                route="GET /ai-sdk/{agent}/{threadId}/stream",
                description="The running turn of a chat from its beginning, for `useChat` with `resume`; with the pieces of an unfinished "
                'answer, if the agent has `deltas = "stored"` or runs in this process. 204: no turn runs.',
                handler=self.resume,
                scopes=("read",),
                parameters=(CALLER,),
                responses={200: streamed, 204: ResponseSpec(description="No turn runs.", media_type="")},
                problems=(404,),
            ),
        )


async def _begun(agent: Agent, thread: str, id: str, parts: Sequence[Any]) -> int:
    """The number of the turn that this message begins, or began when it was sent first."""
    try:
        said = await agent.keep_files(list(parts))
    except UsageError as error:
        raise InvalidInput([{"path": "/messages", "message": error.message}], whole="(body)") from None
    try:
        return await agent.begin(said, thread=thread, id=id)
    except AgentBusy as busy:
        waits = busy.details.get("waiting_for")
        text = (
            f"thread {thread!r:.100} has a turn under way{f', which waits for {waits}' if waits else ''}, and has one at a time. Wait for "
            "its end, end it (POST /agents/{threadId}/stop), or use another thread."
        )
        raise Refused("agent_busy", text) from None


def _payload(given: ApprovalAnswer) -> dict[str, Any]:
    return {"approved": given.approved, "reason": given.reason}


async def _last_question(agent: Agent, thread: str, turn: int, uses: Sequence[str]) -> Position:
    """Where the stream ended in which the client was asked: after the tool calls of the step with the last of these."""
    started = [event for event in await agent.recorded(thread, turn) if event.type == "tool_started"]
    own = [event for event in started if event.data["id"] in uses] or started
    if not own:
        return turn, 0, 0, 0
    last = own[-1]
    return position_of(
        [event for event in started if event.step == last.step and event.data.get("branch") == last.data.get("branch")][
            -1
        ].id
    )


def _broken(error: Exception) -> bytes:
    return frame({"type": "error", "errorText": client_error(error)[1]}) + frame(None)
