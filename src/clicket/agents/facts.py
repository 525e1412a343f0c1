"""What agents remember about a caller: one document for all agents, and one for each agent that remembers something for itself.

A fact that a model remembers has an id that follows from its tool call, so a call that runs again after a crash adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import msgspec

from clicket.agents.transcript import storable
from clicket.engine.executors import CallerDocuments
from clicket.errors import ClicketError, InvalidInput, NotFound, StoreUnavailable, did_you_mean
from clicket.model.codec import encode
from clicket.model.fact import Fact
from clicket.model.ports import StoredDocument

__all__ = ["MEMORY", "Facts", "facts_in"]

MEMORY = "agent.memory"
"""The kind of the documents."""
MAX_TEXT = 500
MAX_FACTS = 200
_ATTEMPTS = 50
_MAX_AGENTS = 1_000
_SHARED = "*"
"""In a key, in place of an agent's name: what all agents read."""
_facts = msgspec.json.Decoder(list[Fact])

Change = Callable[[list[Fact]], list[Fact] | None]
"""Returns the new facts; None: nothing is to change."""


class Facts:
    """Of one caller."""

    def __init__(self, documents: CallerDocuments) -> None:
        self._documents = documents

    async def of(self, agent: str = "") -> list[Fact]:
        """What one agent remembers for itself, or what all agents read; the oldest first."""
        return (await self._read(agent))[0]

    async def all(self) -> list[Fact]:
        """What all agents read, then what each remembers for itself."""
        prefix = self._key("").removesuffix(_SHARED)
        found = await self._documents.records.documents(MEMORY, after=prefix, limit=_MAX_AGENTS)
        names = [document.key.removeprefix(prefix) for document in found if document.key.startswith(prefix)]
        return [fact for name in names for fact in await self.of("" if name == _SHARED else name)]

    async def add(self, id: str, text: str, *, agent: str = "", by: str = "model") -> Fact:
        """Remember a fact; one that is there, with this id or this text, is returned as it is."""
        fact = Fact(id=id, text=_checked(text), agent=agent, by=by, created_at=self._documents.clock.now())
        made = fact

        def add(known: list[Fact]) -> list[Fact] | None:
            nonlocal made
            same = next((each for each in known if id == each.id or each.text == fact.text), None)
            made = fact if same is None else same
            if same is not None:
                return None
            if len(known) >= MAX_FACTS:
                raise InvalidInput(
                    f"{MAX_FACTS} facts are remembered, which is the most. Forget some that are not needed any more first."
                )
            return [*known, fact]

        await self._change(agent, add)
        return made

    async def edit(self, id: str, text: str, *, by: str) -> Fact:
        """Replace the text of a fact. `NotFound`: there is no such fact."""
        known = await self._find(id)
        text = _checked(text)
        made = msgspec.structs.replace(known, text=text, by=by, edited_at=self._documents.clock.now())
        if not await self._change(known.agent, lambda facts: [made if each.id == id else each for each in facts]):
            raise _unknown(id, ())
        return made

    async def forget(self, id: str, agent: str) -> Fact:
        """`NotFound`: there is no such fact of this agent, or of all for an empty name."""
        found = await self.of(agent)
        known = next((each for each in found if each.id == id), None)
        if known is None:
            raise _unknown(id, found)
        await self._change(agent, lambda facts: [each for each in facts if each.id != id])
        return known

    async def forget_any(self, id: str) -> Fact:
        """`forget` a fact of any agent."""
        return await self.forget(id, (await self._find(id)).agent)

    async def _find(self, id: str) -> Fact:
        found = await self.all()
        known = next((each for each in found if each.id == id), None)
        if known is None:
            raise _unknown(id, found)
        return known

    async def _change(self, agent: str, change: Change) -> bool:
        """False: there was nothing to change."""
        documents = self._documents
        key = self._key(agent)
        for _ in range(_ATTEMPTS):
            known, version = await self._read(agent)
            new = change(known)
            if new is None or new == known:
                return False
            if await documents.records.put_document(MEMORY, key, documents.protect(MEMORY, key, encode(new)), version):
                return True
        raise StoreUnavailable("too many processes change this memory at once. Try again.", transient=True)

    async def _read(self, agent: str) -> tuple[list[Fact], int]:
        documents, key = self._documents, self._key(agent)
        now = documents.records.document_now(MEMORY, key)
        document = now[0] if now is not None else await documents.records.document(MEMORY, key)
        if document is None:
            return [], 0
        found = facts_in(documents, document)
        if found is None:
            raise ClicketError(
                f"the memory {key!r} cannot be read. Set the secret_key that wrote it, or restore a backup; rt.forget removes it."
            )
        return found, document.version

    def _key(self, agent: str) -> str:
        return f"{quote(self._documents.caller, safe='')}/{agent or _SHARED}"


def facts_in(documents: CallerDocuments, document: StoredDocument) -> list[Fact] | None:
    """None: another program wrote it, or no key of this process opens it."""
    try:
        body = documents.reveal(MEMORY, document.key, document.body)
        return None if body is None else _facts.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return None


def _checked(text: str) -> str:
    """One line, so that no fact looks like two."""
    line = " ".join(storable(text).split())
    if not 0 < len(line) <= MAX_TEXT:
        raise InvalidInput(
            f"a fact has from 1 to {MAX_TEXT} characters, not {len(line):,}. Write it shorter, or as several facts."
        )
    return line


def _unknown(id: str, found: list[Fact] | tuple[()]) -> NotFound:
    return NotFound(f"there is no fact {id!r:.60}.{did_you_mean(id, [each.id for each in found])}")
