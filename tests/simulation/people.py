"""What people do beside a plain decision: grants for later calls, their revocation, and answers to the questions of a tool."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.simulation.scene import scene

from clicket import ToolContext, tool
from clicket.engine.executors.sink import questions
from clicket.tools.question import InputAnswer, InputQuestion

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["QUESTIONS", "Given", "Granters", "asking"]

QUESTIONS = ("first", "second")
_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(idempotent=True, timeout=4, max_retries=1, retry_delay=0.1)
async def asking(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """Asks a person two things, one after the other. After each answer it runs again."""
    answers: list[InputAnswer] = []
    for key in QUESTIONS:
        question = InputQuestion(key=key, source="simulation", message=f"The {key} name?", schema=_FORM)
        answers.append(questions(ctx).ask(question, 12.0))
    here = scene()
    body = here.begin(ctx, before)
    try:
        await asyncio.sleep(before)
        done = here.effect(ctx)
        await asyncio.sleep(after)
        return {**done, "answers": [(each.content or {}).get("name", each.action) for each in answers]}
    finally:
        body.ended = here.world.now


class Given:
    """A grant that a person has given with the approval of a call."""

    def __init__(self, terms: dict[str, Any], call: str) -> None:
        self.terms, self.call = terms, call


class Granters:
    """People who approve once for several calls, and take it back."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world, self._scene = cluster, cluster.world, cluster.scene

    def terms(self, reason: str, call: str) -> dict[str, Any]:
        """What a person grants, noted before it is sent: its answer may be lost."""
        chance = self._world.chance
        terms: dict[str, Any] = {}
        if self._cluster.features.focus.broad_grants:
            terms["caller"] = "*"
            self._scene.count[call, reason] = Given(terms, call)
            return terms
        if chance.random() < 0.7:
            terms["uses"] = chance.randint(1, 2)
        if chance.random() < 0.3:
            terms["thread"] = f"t{chance.randint(0, 2)}"
        if chance.random() < 0.4:
            terms["arguments"] = {"properties": {"before": {"maximum": 0.1}}}
        if chance.random() < 0.5:
            terms["caller"] = "*"
        self._scene.count[call, reason] = Given(terms, call)
        return terms

    def revoke(self) -> None:
        """A person takes back a grant, if there is one."""
        if self._cluster.features.servers and self._world.chance.random() < 0.5:
            self._cluster.http.do(self._cluster.http.revoke(), "revoke a grant")
        elif (member := self._cluster.up()) is not None:
            self._cluster.clients.do(member, self._revoke(member), "revoke a grant")

    async def _revoke(self, member: Member) -> None:
        assert member.runtime is not None
        grants = await member.runtime.grants.list(state="active")
        if grants:
            grant = self._world.chance.choice(list(grants))
            await member.runtime.grants.revoke(grant.id, by="pete")
            self.revoked(grant.id)

    def revoked(self, id: str) -> None:
        """It was acknowledged."""
        self._world.tell("person", f"grant {id} is revoked")
        self._scene.revoked.setdefault(id, self._world.now)
