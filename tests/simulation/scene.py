"""What the workload's tools do, and what the outside sees of it: bodies that begin, have effects and end; tokens of external calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

from tests.crash.judge import Ack, Effect, Rule
from tests.simulation.loop import NODE, Node
from tests.simulation.world import World

from clicket import DidNotHappen, Happened, Policy, RetryableError, ToolContext, Unknown, tool
from clicket.tools.reconcile import CallInDoubt

__all__ = ["POLICY", "RULES", "TIMEOUTS", "TOOLS", "Body", "Scene", "scene"]

_current: list[Scene] = []


class Body:
    """A run of a tool's body. `ended` is None while it runs, and for ever if its process died."""

    def __init__(self, id: str, attempt: int, tool: str, node: Node | None, began: float, before: float) -> None:
        self.id, self.attempt, self.tool = id, attempt, tool
        self.node, self.began = node, began
        self.before = before
        self.ended: float | None = None


class Scene:
    """All that is seen from outside in one seed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.kill: Callable[[Node | None], None] = lambda node: None
        """Let a node crash at one of the next callbacks."""
        self.moment: Callable[..., None] = lambda *what: None
        """Called when something happens that `moments.py` may wait for."""
        self.crosses: Callable[[str, float], None] = lambda call, left: None
        """Called when an external call has its token: how many seconds are left for it."""
        self.refuses: Callable[[str], bool] = lambda who: False
        """Does a model, or a background call, fail now?"""
        self.webhooks: list[tuple[str, str, str, str, str]] = []
        """What another system received: the kind of the notice; thread, id and state of the call; the notice's own id."""
        self.is_storm = True
        self.cancelled: dict[str, float] = {}
        """When a cancel of a call was acknowledged first."""
        self.may_be_cancelled: set[str] = set()
        """Calls that somebody has tried to cancel, acknowledged or not."""
        self.decided: dict[tuple[str, str], str] = {}
        """Of decisions that were acknowledged, by call and reason: the hash of the question that the person saw."""
        self.count: dict[tuple[str, str], Any] = {}
        """What people granted, or tried to, by the call and the reason of the approval."""
        self.revoked: dict[str, float] = {}
        """When the revocation of a grant was acknowledged first."""
        self.answered: dict[str, set[str]] = {}
        """What people answered, or tried to, to the questions of a call."""
        self.is_on_record: Callable[[str, int], bool] = lambda call, attempt: True
        """Does the store have the start of this attempt?"""
        self.recorded: Callable[[], Iterable[tuple[str, int, str]]] = tuple
        """The replies on record: the message of their turn, their step, and the process that owned the turn last."""
        self.bodies: list[Body] = []
        self.effects: list[Effect] = []
        self.acks: list[Ack] = []
        self.scripts: list[Any] = []
        """What the models answer: a script for each message."""
        self.tokens_used: list[tuple[str, str, str]] = []
        """Credentials that bodies got: the call, its caller, the token."""
        self.requests: list[Any] = []
        """What models were asked, in order."""
        self.stops: list[tuple[float, str, bool]] = []
        """When a person stopped the turn of a thread, or tried to; and whether that was acknowledged."""
        self.added = 0
        """Messages that middleware has added."""
        self.is_decided: Callable[[tuple[str, int, int, str, str, str]], bool] = lambda place: False
        """Is a decision of middleware on record?"""
        self.decided_again: list[str] = []
        self.heard_ends: list[tuple[str, float, float]] = []
        """The call, since when somebody read its events, and when that reader got its end."""
        self.steered: list[tuple[float, str, str]] = []
        """When a person cordoned, drained or uncordoned which process."""
        self.unasked: list[str] = []
        """Calls of agents whose bodies began before the reply that asks for them was on record."""
        self.is_asked_for: Callable[[str], bool] = lambda call: True
        """Is the reply on record that asks for this call, if an agent makes it?"""
        self.may_lose_leases = False
        """Was the disk full? No process can renew its lease then: others take its turns, and it learns of that at its next write."""
        self.asked_again: list[str] = []
        """Steps that a model was asked for although their reply was on record."""
        self.tokens_asked = 0
        self.tokens_refused = 0
        """Of requests that a model refused."""
        self.bills = False
        """Do the replies of models have a usage that depends on their requests?"""
        self.completed: dict[str, Any] = {}
        """What other systems completed external calls with, acknowledged; and when."""
        self.completed_at: dict[str, float] = {}
        self.scheduled_at: float | None = None
        self.tokens: dict[str, str] = {}
        """The token of each external call that another system uses: the last one, or one of an earlier attempt."""
        self.token_of: dict[str, int] = {}
        """The attempt of each token."""
        self.script = ""
        """What models ask for (`focus.py`)."""
        _current[:] = [self]

    def complete(self, id: str, output: Any) -> None:
        """The result of another system is acknowledged."""
        self.completed[id], self.completed_at[id] = output, self.world.now

    def check_new(self, who: str, step: int) -> None:
        """A model is asked for a reply: it must not be on record, unless a former owner asks that cannot know it yet."""
        node = NODE.get()
        for text, number, owner in self.recorded():
            away = node is not None and (node.was_away or self.may_lose_leases) and node.name != owner
            if (text, number) == (who, step + 1) and not away:
                self.asked_again.append(f"step {number} of {text!r}")

    def decides(self, turn: Any, step: int, on: str, by: str, use: str) -> None:
        """Middleware, or a check, decides: it must not be on record, unless a former owner asks that cannot know it yet."""
        node = NODE.get()
        if (node is None or not node.was_away) and self.is_decided((turn.thread, turn.number, step, on, by, use)):
            self.decided_again.append(
                f"{by} decided again in {on} of step {step}, turn {turn.number} of {turn.thread}, {use}"
            )

    def begin(self, ctx: ToolContext, before: float = 0.0) -> Body:
        return self.began(Body(ctx.call_id, ctx.attempt, ctx.tool, NODE.get(), self.world.now, before))

    def began(self, body: Body) -> Body:
        is_alive = body.node is None or body.node.is_alive  # or the power was lost within this callback
        if is_alive and not self.is_on_record(body.id, body.attempt):
            self.world.wrong(
                "intent before effect", f"attempt {body.attempt} of {body.id} runs, and its start is not stored"
            )
        if is_alive and not self.is_asked_for(body.id):
            self.unasked.append(f"the body of {body.id} began, and the reply that asks for it is not stored")
        self.world.tell(body.node or "world", f"the body of {body.id} begins, attempt {body.attempt}")
        self.bodies.append(body)
        self.moment("body", body.node, body.id)
        return body

    def effect(self, ctx: ToolContext) -> dict[str, Any]:
        self.world.tell(NODE.get() or "world", f"the body of {ctx.call_id} has its effect")
        self.effects.append(Effect(ctx.call_id, ctx.attempt, ctx.idempotency_key, ctx.tool))
        self.moment("effect", NODE.get(), ctx.call_id)
        return {"id": ctx.call_id, "attempt": ctx.attempt}

    def happened(self, id: str, attempt: int) -> bool:
        return any(effect.id == id and effect.attempt == attempt for effect in self.effects)


def scene() -> Scene:
    return _current[0]


async def work(ctx: ToolContext, before: float, after: float, fails: int = 0) -> dict[str, Any]:
    here = scene()
    body = here.begin(ctx, before)
    try:
        await asyncio.sleep(before)
        done = here.effect(ctx)
        await asyncio.sleep(after)
        if ctx.attempt <= fails:
            raise RetryableError("not yet")
        return done
    finally:
        body.ended = here.world.now


@tool(timeout=3, max_retries=2, retry_delay=0.1)
async def pay(before: float, after: float, fails: int, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after, fails)


@tool(idempotent=True, timeout=2, max_retries=2, retry_delay=0.1)
async def put(before: float, after: float, fails: int, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after, fails)


@tool(read_only=True, cache=60, timeout=4, max_retries=1)
async def look_up(before: float, after: float, key: int, ctx: ToolContext) -> dict[str, Any]:
    done = await work(ctx, before, after)
    if scene().world.chance.random() < 0.2:
        raise ValueError("not found")
    return done


@tool(recovery="ask", timeout=4, max_retries=0)
async def confirm(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


@tool(recovery="ask", timeout=4, max_retries=0)
async def guarded(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """A person is asked before it runs, and again if its process died."""
    return await work(ctx, before, after)


@tool(timeout=4, max_retries=0)
async def approved(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


@tool(timeout=6, idle_timeout=1.5, max_retries=0)
async def stream(before: float, after: float, ctx: ToolContext) -> AsyncIterator[str]:
    here = scene()
    body = here.begin(ctx)
    try:
        yield "first "
        await asyncio.sleep(before)
        here.effect(ctx)
        ctx.progress(1, 2)
        yield "second "
        await asyncio.sleep(after)
        yield "third"
    finally:
        body.ended = here.world.now


@tool(timeout=2, max_retries=1, retry_delay=0.1)
async def stubborn(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """Goes on for a while after it was cancelled."""
    try:
        return await work(ctx, before, after)
    except asyncio.CancelledError:
        await asyncio.sleep(after)
        raise


@tool(timeout=4, max_retries=0)
async def broken(before: float, after: float, ctx: ToolContext) -> None:
    await work(ctx, before, after)
    raise ValueError("always")


@tool(max_concurrency=1, timeout=5, max_retries=0)
async def narrow(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


@tool(isolation="thread", timeout=4, max_retries=0)
def in_thread(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    body = scene().begin(ctx)
    body.ended = scene().world.now
    return scene().effect(ctx)


@tool(isolation="process", timeout=4, max_retries=1, retry_delay=0.1)
def in_process(before: float, after: float) -> dict[str, Any]:
    """Its body is that of the simulated child process (`lanes.py`)."""
    raise AssertionError("it runs in a child process")


async def was_it_done(call: CallInDoubt, ctx: ToolContext) -> Happened | DidNotHappen | Unknown:
    here = scene()
    here.moment("check", NODE.get(), call.id)
    await asyncio.sleep(here.world.chance.random())
    if here.world.chance.random() < 0.2:
        return Unknown("the other side does not answer")
    if here.happened(call.id, call.attempt):
        return Happened({"id": call.id, "attempt": call.attempt})
    return DidNotHappen()


@tool(reconcile=was_it_done, timeout=3, max_retries=1, retry_delay=0.1)
async def checked(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


@tool(external=True, timeout=8, max_retries=0)
async def order(before: float, after: float, ctx: ToolContext) -> Any:
    here = scene()
    body = here.begin(ctx)
    try:
        await asyncio.sleep(before)
        here.effect(ctx)
        token = ctx.pending()
        here.tokens[ctx.call_id], here.token_of[token.token] = token.token, ctx.attempt
        here.crosses(ctx.call_id, 8.0 - before)
        await asyncio.sleep(min(after, 1.4))  # its result may come before it has returned
        return token
    finally:
        body.ended = here.world.now


@tool(external=True, idempotent=True, max_concurrency=2, timeout=3, max_retries=1, retry_delay=0.1)
async def order_twice(before: float, after: float, fails: int, ctx: ToolContext) -> Any:
    """Its first attempt may fail after it has given its token away; the other system may go on with that one."""
    here = scene()
    body = here.begin(ctx)
    try:
        token = ctx.pending()
        here.token_of[token.token] = ctx.attempt
        if ctx.attempt == 1 or here.world.chance.random() < 0.5:
            here.tokens[ctx.call_id] = token.token
        here.crosses(ctx.call_id, 3.0)
        await asyncio.sleep(min(before, 0.5))
        here.effect(ctx)
        if ctx.attempt <= fails:
            raise RetryableError("not yet")
        return token
    finally:
        body.ended = here.world.now


@tool(rate="4/s", timeout=4, max_retries=0)
async def rated(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


@tool(rate="1/s", timeout=4, max_retries=0)
async def seldom(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    return await work(ctx, before, after)


@tool(idempotent=True, timeout=4, max_retries=0)
async def deadly(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """Its process dies each time."""
    body = scene().begin(ctx, before)
    try:
        await asyncio.sleep(before)
        scene().kill(NODE.get())
        await asyncio.sleep(after)
        return scene().effect(ctx)
    finally:
        body.ended = scene().world.now  # it was stopped first


@tool(idempotent=True, max_concurrency=2, timeout=1, max_retries=2, retry_delay=0.1)
async def deaf(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """Goes on to its end, however often it is cancelled."""
    here = scene()
    body, ends = here.begin(ctx, before), here.world.now + before + after
    try:
        while (left := ends - here.world.now) > 0:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(left)
        return here.effect(ctx)
    finally:
        body.ended = here.world.now


POLICY = Policy(ask=["approved", "guarded"], approval_timeout=12.0)
TOOLS = [
    deadly,
    rated,
    pay,
    put,
    look_up,
    confirm,
    approved,
    stream,
    stubborn,
    broken,
    narrow,
    in_thread,
    in_process,
    checked,
    order,
]
TIMEOUTS = {
    "pay": 3,
    "put": 2,
    "look_up": 4,
    "confirm": 4,
    "approved": 4,
    "broken": 4,
    "narrow": 5,
    "checked": 3,
    "rated": 4,
}
RULES = {
    "pay": Rule(max_retries=2),
    "put": Rule(repeatable=True, max_retries=2),
    "look_up": Rule(repeatable=True, cached=True, max_retries=1),
    "confirm": Rule(recovery="ask", max_retries=0),
    "approved": Rule(needs_approval=True, max_retries=0),
    "guarded": Rule(needs_approval=True, recovery="ask", max_retries=0),
    "stream": Rule(max_retries=0),
    "stubborn": Rule(max_retries=1),
    "broken": Rule(max_retries=0),
    "narrow": Rule(max_retries=0),
    "in_thread": Rule(max_retries=0),
    "checked": Rule(max_retries=1),
    "order": Rule(max_retries=0),
    "rated": Rule(max_retries=0),
    "seldom": Rule(max_retries=0),
    "in_process": Rule(max_retries=1),
    "deadly": Rule(repeatable=True, max_retries=0),
    "deaf": Rule(repeatable=True, max_retries=2),
    "costly": Rule(repeatable=True, max_retries=2),
    "with_key": Rule(repeatable=True, max_retries=5),  # those for want of a credential do not count
    "lasting": Rule(repeatable=True, max_retries=1),
    "job": Rule(max_retries=0),
    "asking": Rule(repeatable=True, max_retries=3),  # one of them for each of its questions
}
