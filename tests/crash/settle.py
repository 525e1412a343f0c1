"""After the last kill: one more runtime finishes every call, another one reads them, and the judge compares."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from tests.crash.judge import Ack, Effect, Rule, Verdict, judge
from tests.crash.tools import POLICY, long_text
from tests.kit.waiting import PATIENCE

from clicket import Record, Runtime, Settings

__all__ = ["Place", "everything", "finish", "read_lines", "settle"]

T = TypeVar("T")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A store, and the folder for the logs of effects, acks and kills."""

    store: str
    folder: str
    durability: str = "process"
    lease: float = 10.0

    def settings(self, **given: Any) -> Settings:
        """Settings with short timeouts."""
        chosen = {"cancel_grace": 0.1, "close_timeout": 1.0, "lease": self.lease, **given}
        return Settings(store=self.store, durability=self.durability, **chosen)  # type: ignore[arg-type]

    def lines(self, name: str, kind: type[T]) -> list[T]:
        return read_lines(Path(self.folder, name), kind)


async def settle(place: Place, tools: Sequence[Any], rules: Mapping[str, Rule], *, seed: str = "") -> Verdict:
    """Finish every call with these tools, then judge."""
    await finish(place, tools, seed=seed)
    return await verdict(place, rules)


async def verdict(place: Place, rules: Mapping[str, Rule]) -> Verdict:
    """Judge the store as it is."""
    async with Runtime([], settings=place.settings()) as rt:
        listed = await everything(rt)
        records = [await rt.get(record.id, thread=record.thread) for record in listed]
        artifacts = {record.artifact: await rt.artifact(record.artifact) for record in records if record.artifact}
    acks = place.lines("acks", Ack)
    acks += [
        Ack(did="trouble", id=one.id, text="`history` and `get` do not agree")
        for one, other in zip(listed, records, strict=True)
        if one != other
    ]
    return judge(
        records,
        place.lines("effects", Effect),
        acks,
        rules,
        artifacts=artifacts,
        texts={record.id: long_text(record.id) for record in records},
    )


async def finish(place: Place, tools: Sequence[Any], *, seed: str = "") -> None:
    """Claim what is left, decide what waits for an approval, and wait; the judge reports calls that have no end even
    then."""
    chance = random.Random(f"{seed} the end")
    async with Runtime(tools, policy=POLICY, settings=place.settings()) as rt:
        await rt.recover()
        give_up_at = asyncio.get_running_loop().time() + PATIENCE
        while active := (await rt.history(active=True, limit=1_000)).items:
            for record in active:
                if record.waiting_for == "approval":
                    decide = rt.approve if chance.random() < 0.5 else rt.deny
                    await decide(record.id, thread=record.thread, by="the judge")
            if asyncio.get_running_loop().time() > give_up_at:
                return
            await asyncio.sleep(0.01)


async def everything(rt: Runtime) -> list[Record]:
    found: list[Record] = []
    cursor = None
    while True:
        page = await rt.history(limit=1_000, cursor=cursor)
        found += page.items
        cursor = page.cursor
        if cursor is None:
            return found


def read_lines(path: Path, kind: type[T]) -> list[T]:
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [msgspec.json.decode(line, type=kind) for line in lines]
