"""Credentials of callers: a tool that needs one, people who put, replace and revoke them, and ids that are sent again by anybody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.scene import scene, work

from clicket import ToolContext, tool
from clicket.errors import Conflict, NotFound

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member

__all__ = ["PROVIDER", "SECRET", "Holders", "Token", "with_key"]

PROVIDER = "hub"
SECRET = "token-of-"
"""How every secret begins: it must be seen nowhere."""


class Token:
    """A credential that somebody put, or tried to. `gone_at`: when its revocation was acknowledged."""

    def __init__(self, number: int, caller: str) -> None:
        self.caller, self.secret = caller, f"{SECRET}{caller or 'the-program'}-{number:06d}"
        self.put_at: float | None = None
        self.gone_at: float | None = None


@tool(idempotent=True, timeout=4, max_retries=1, retry_delay=0.1, credentials=[PROVIDER])
async def with_key(before: float, after: float, ctx: ToolContext) -> dict[str, Any]:
    """Uses the credential of its caller, and gives it away in its output, where it must be masked."""
    token = ctx.credential(PROVIDER)
    scene().tokens_used.append((ctx.call_id, ctx.caller, token))
    done = await work(ctx, before, after)
    return {**done, "token": token}


class Holders:
    """People whose credentials the calls need."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world = cluster, cluster.world
        self.put_tokens: list[Token] = []

    def change(self) -> None:
        """A person puts a credential, or revokes it."""
        caller = self._cluster.clients.caller_of(f"c{self._world.chance.randint(0, 3)}")
        revokes = self._world.chance.random() < 0.25
        if (member := self._cluster.up()) is not None:
            work = self._revoke(member, caller) if revokes else self._put(member, caller)
            self._cluster.clients.do(member, work, "revoke a credential" if revokes else "put a credential")

    def put_for_all(self) -> None:
        """At rest each caller whose call waits gets one."""
        if not any(call.waiting_for == "credential" for call in self._cluster.place.calls()):
            return
        for caller in sorted({self._cluster.clients.caller_of(id) for id in self._cluster.clients.given}):
            if (member := self._cluster.up()) is not None:
                self._cluster.clients.do(member, self._put(member, caller), "put a credential")

    async def _put(self, member: Member, caller: str) -> None:
        token = Token(len(self.put_tokens), caller)
        self.put_tokens.append(token)
        assert member.runtime is not None
        await member.runtime.credentials.put(PROVIDER, token.secret, caller=caller)
        token.put_at = self._world.now
        self._world.tell("person", f"a credential of {caller!r} is put")

    async def _revoke(self, member: Member, caller: str) -> None:
        known = [token for token in self.put_tokens if token.caller == caller and token.put_at is not None]
        assert member.runtime is not None
        try:
            await member.runtime.credentials.revoke(PROVIDER, caller=caller)
        except NotFound:
            return
        self._world.tell("person", f"the credential of {caller!r} is revoked")
        for token in known:
            token.gone_at = token.gone_at or self._world.now

    # Ids that are sent again.

    def send_again(self) -> None:
        """A program sends a call again that was acknowledged, from anywhere: it is the same call, also if it has ended."""
        clients, chance = self._cluster.clients, self._world.chance
        known = sorted(
            {ack.id for ack in clients.scene.acks if ack.did in ("submit", "result") and ack.id in clients.given}
        )
        if not known:
            return
        id = chance.choice(known)
        other = chance.random() < 0.3
        if (
            not other
            and self._cluster.features.servers
            and clients.caller_of(id) in ("ann", "bob")
            and chance.random() < 0.5
        ):
            self._cluster.http.do(self._cluster.http.call(id, clients.caller_of(id)), f"{id} again")
        elif (member := self._cluster.up()) is not None:
            work = (
                self._call_with_others(member, id) if other else clients.call(member, id, waits=chance.random() < 0.5)
            )
            clients.do(member, work, f"{id} again")

    async def _call_with_others(self, member: Member, id: str) -> None:
        """With other arguments it is refused: an id is one call."""
        clients = self._cluster.clients
        tool, arguments, options = clients.given[id]
        try:
            await clients.runtime_of(member, id).submit(tool, {**arguments, "before": 0.777}, id=id, **options)
        except Conflict:
            return
        self._world.wrong("an id is one call", f"{id} was sent with other arguments, and that was acknowledged")
