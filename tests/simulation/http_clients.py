"""Programs and people that use the cluster over HTTP, with API keys. They try again at any server until they have an answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from contextvars import Context
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tests.crash.judge import Ack
from tests.simulation.clients import REFUSED
from tests.simulation.conversations import DIED
from tests.simulation.servers import JUDGES, Answer, Connection, key_of

from clicket import State

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster, Member
    from tests.simulation.conversations import Message

__all__ = ["HttpClients"]

_LATER = (408, 429, 503)
"""What says: try again."""


class HttpClients:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster, self._world, self._scene = cluster, cluster.world, cluster.scene
        self.open: list[asyncio.Task[None]] = []

    def do(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Something that a program does on a machine of its own, which outlives the servers."""

        async def client() -> None:
            try:
                await work
            except Exception as error:
                self._world.wrong("errors are expected ones", f"{name} over HTTP: {error!r}")

        self.open.append(Context().run(lambda: self._world.loop.create_task(client(), name=f"{name} over HTTP")))

    # Calls.

    async def call(self, id: str, caller: str) -> None:
        """Makes a call, and learns its result."""
        chance = self._world.chance
        tool, arguments, options = self._cluster.clients.given[id]
        wait = chance.choice((False, False, True, 0.5))
        leaves = bool(wait) and chance.random() < 0.2
        body = {"tool": tool, "arguments": arguments, "id": id, "wait": wait, "cancel_on_disconnect": leaves, **options}
        if leaves:
            self._scene.may_be_cancelled.add(id)
        patience = 6.0
        while True:
            answer = await self._ask("POST", "/calls", caller, body, patience=patience)
            if answer is None:  # a call that waits for a person does not end while its client waits for it
                body["wait"] = False
            elif answer.status == 200:
                self._result(id, answer.body)
                return
            elif answer.status == 202:
                self._scene.acks.append(Ack(did="submit", id=id))
                self._cluster.clients.stored(id, "submit")
                break
            elif answer.status == 422 and REFUSED in arguments:
                self._result(id, {"state": "failed", "error": answer.body})
                return
            elif answer.status not in _LATER:
                self._unexpected(id, answer)
                return
            await asyncio.sleep(0.5)
        if chance.random() < 0.5:
            await self.watch(id, caller)
        await self._poll(id, caller)

    async def _poll(self, id: str, caller: str) -> None:
        """Ask any server for the call until it has ended. It was acknowledged, so every server finds it."""
        while True:
            answer = await self._ask("GET", f"/calls/{id}", caller, thread=self._thread(id))
            if answer is not None and answer.status == 200:
                if State(answer.body["state"]).is_terminal:
                    self._result(id, answer.body)
                    return
            elif answer is not None and answer.status not in _LATER:
                self._unexpected(id, answer)
                return
            await asyncio.sleep(1.0)

    def _result(self, id: str, body: dict[str, Any]) -> None:
        code = (body.get("error") or {}).get("code")
        self._world.tell("client", f"{id} is {body['state']} {code or body.get('output')}, over HTTP")
        self._scene.acks.append(
            Ack(did="result", id=id, state=body["state"], code=code, output=body.get("output"), artifact=body.get("artifact"))
        )  # fmt: skip
        found = self._cluster.clients.stored(id, "result")
        if found is not None and found.ended_at is None:
            self._world.wrong(
                "durable before visible", f"a client of {id} got {body['state']}, and the store has {found.state}"
            )

    async def watch(self, id: str, caller: str) -> None:
        """Reads the events of a call to its end. After a break it goes on at any server, after the last event that it has."""
        last, began, is_new = 0, 0.0, True
        while True:
            member = await self._server()
            node, connection = member.node, self._connect(member)
            if is_new:
                began, is_new = self._world.now, False
            async with aclosing(self._events(connection, id, caller, last)) as events:
                async for status, event in events:
                    if status in (204, 404):  # nothing is left; or nobody has made the call yet
                        return
                    if status not in (200, *_LATER):
                        self._unexpected(id, Answer(status, event))
                        return
                    if event is None or "seq" not in event:  # the server shuts down, or could not go on
                        is_new = event == {}
                        break
                    if event["seq"] != last + 1:
                        self._world.wrong(
                            "events without holes", f"an HTTP reader of {id} got event {event['seq']} after {last}"
                        )
                    last = event["seq"]
                    state = State(event["state"])
                    self._scene.acks.append(Ack(did="saw", id=id, seq=last, type=event["type"], state=event["state"]))
                    if state.is_terminal:
                        self._scene.heard_ends.append((id, began, self._world.now))
                        return
            # Else the server ended a stream that should have gone on.
            is_new = is_new or connection.is_cut or member.node is not node or not member.is_up
            await asyncio.sleep(0.5)

    def _events(self, connection: Connection, id: str, caller: str, after: int) -> AsyncGenerator[tuple[int, Any]]:
        return connection.listen(f"/calls/{id}/events", key_of(caller), after, thread=self._thread(id))

    async def cancel(self, id: str, caller: str) -> None:
        self._scene.may_be_cancelled.add(id)
        answer = await self._ask("POST", f"/calls/{id}/cancel", caller, {}, thread=self._thread(id))
        if answer is None or answer.status in (404, *_LATER):
            return
        if answer.status != 200:
            self._unexpected(id, answer)
            return
        took = answer.body["cancelled"]
        self._world.tell("client", f"the cancel of {id} over HTTP is answered {took}")
        if took:
            self._scene.cancelled.setdefault(id, self._world.now)
        self._scene.acks.append(Ack(did="cancel", id=id, took=took))

    # People and other systems.

    async def decide(self, *, all_: bool) -> None:
        chance, by = self._world.chance, self._world.chance.choice(JUDGES)
        answer = await self._ask("GET", "/calls", by, waiting_for="approval", limit=200)
        if answer is None or answer.status in _LATER:
            return
        if answer.status != 200:
            self._unexpected("the calls that wait", answer)
            return
        for item in answer.body["items"]:
            if all_ or chance.random() < 0.5:
                if not all_ and (seconds := self._cluster.moments.hesitates()):
                    await asyncio.sleep(seconds)
                await self._decide_one(by, item)

    async def _decide_one(self, by: str, item: dict[str, Any]) -> None:
        chance, id, approval = self._world.chance, item["id"], item["approval"]
        reason = f"reason {chance.randint(1, 1_000_000)}"
        verb, body = self._cluster.clients.decision(item["tool"], id, approval, reason)
        body["reason"] = reason
        if approval.get("purpose") == "input" or chance.random() < 0.7:
            body["seen"] = approval["hash"][:16]
        path = f"/calls/{quote(id, safe='')}/{verb}"
        answer = await self._ask("POST", path, by, body, thread=item["thread"], caller=item["caller"])
        if answer is None or answer.status in (404, *_LATER):  # 404: it has ended, or was never there
            return
        if answer.status not in (200, 409):
            self._unexpected(id, answer)
            return
        took = answer.status == 200
        self._world.tell("person", f"{by} decides on {id} over HTTP: {verb} {answer.status}")
        self._scene.acks.append(Ack(did="decide", id=id, took=took, text=by))
        if took and "seen" in body:
            self._scene.decided[id, body["reason"]] = approval["hash"]

    async def complete(self, id: str, token: str, output: dict[str, Any]) -> None:
        """Another system ends an external call."""
        answer = await self._ask("POST", f"/external/{token}/complete", JUDGES[0], {"output": output})
        if answer is None or answer.status in (404, 409, *_LATER):
            return
        if answer.status == 200:
            self._scene.complete(id, output)
        else:
            self._unexpected(id, answer)

    async def revoke(self) -> None:
        answer = await self._ask("GET", "/grants", JUDGES[0], state="active")
        if answer is None or answer.status != 200 or not answer.body["items"]:
            return
        id = self._world.chance.choice(answer.body["items"])["id"]
        answer = await self._ask("DELETE", f"/grants/{id}", JUDGES[0])
        if answer is None or answer.status in _LATER:
            return
        if answer.status == 200:
            self._cluster.granters.revoked(id)
        else:
            self._unexpected(id, answer)

    # Agents.

    async def send(self, message: Message) -> None:
        """Sends a message, again and again under its id, until it has the answer of its turn."""
        chance = self._world.chance
        while True:
            body = {
                "message": message.text,
                "agent": message.agent,
                "id": message.id,
                "wait": chance.choice((False, 2.0, 5.0)),
            }
            answer = await self._ask("POST", f"/agents/{message.thread}/messages", message.caller, body)
            if answer is not None and answer.status == 200:
                self._cluster.conversations.answered(message, answer.body["text"], answer.body["stopped"])
                return
            if answer is not None and DIED in str(answer.body):
                self._cluster.conversations.answered(message, "", "error")
                return
            if answer is not None and answer.status not in (202, 409, *_LATER):
                self._unexpected(message.id, answer)
                return
            await asyncio.sleep(1.0)

    async def stop(self, message: Message) -> None:
        self._cluster.conversations.stopped(message, took=False)
        path = f"/agents/{message.thread}/stop"
        answer = await self._ask("POST", path, message.caller, {}, agent=message.agent)
        if answer is not None and answer.status == 200:
            if answer.body["stopped"]:
                self._cluster.conversations.stopped(message, took=True)
        elif answer is not None and answer.status not in _LATER:
            self._unexpected(message.id, answer)

    # The way to a server.

    async def _ask(
        self, method: str, path: str, who: str, body: Any = None, *, patience: float = 6.0, **query: Any
    ) -> Answer | None:
        return await self._connect(await self._server()).ask(
            method, path, key_of(who), body, patience=patience, **query
        )

    async def _server(self) -> Member:
        """Any member that serves. It may die, or close, before the request arrives."""
        while True:
            up = [member for member in self._cluster.members if member.is_up and member.app is not None]
            if up:
                return self._world.chance.choice(up)
            await asyncio.sleep(0.25)

    def _connect(self, member: Member) -> Connection:
        chance = self._world.chance
        breaks = self._scene.is_storm and chance.random() < 0.08
        assert member.app is not None
        return Connection(
            self._world,
            member.node,
            member.app,
            breaks_after=chance.choice((0.0, 0.005, chance.expovariate(1))) if breaks else None,
        )

    def _thread(self, id: str) -> str:
        thread: str = self._cluster.clients.given[id][2]["thread"]
        return thread

    def _unexpected(self, id: str, answer: Answer) -> None:
        if answer.status == 404 and (self._cluster.may_forget or self._cluster.archive.is_gone(id)):
            return
        self._world.wrong("HTTP answers are expected ones", f"{id}: {answer.status} {answer.body}")
