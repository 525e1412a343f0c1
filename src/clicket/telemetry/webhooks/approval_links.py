"""Single-use links to the approver page. A link decides one question about one call, and shows nothing else.

The token in a link is a notice's id and a keyed hash of what the link is for: caller, thread, call, the hash of what is decided
about, until when, and what its holder may do. The key is derived from `secret_key`; the store has no token. A decision is on record
in the link's document before it is written into the call: a process that dies in between leaves a link that takes the same decision
again, and no other. Of arguments or an answer that came with it, the document has a keyed hash only: they may hold secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from clicket.errors import ClicketError
from clicket.model.codec import canonical, encode
from clicket.model.ports import Records, StoredDocument
from clicket.safety.vault import Vault
from clicket.telemetry.webhooks.facts import Question
from clicket.telemetry.webhooks.outbox import StoredNotice

__all__ = ["ApprovalLinks", "Link", "LinkRefused", "Refusal"]

_KIND = "notice.link"
_PAGE = 500
_KEPT = 7 * 24 * 3600.0
Refusal = Literal["invalid", "expired", "used", "changed", "decided"]
Decision = Literal["approve", "deny", "respond"]


class LinkRefused(ClicketError):
    """The link does not work (any more); `why` says for which reason."""

    code = "link_refused"

    def __init__(self, why: Refusal) -> None:
        super().__init__(f"the approval link does not work: {why}.")
        self.why = why


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """`decision` is what its holder chose; `done`: it is in the call. `allows`: what its holder may do beside approve and deny. `given`: a
    keyed hash of the arguments, or of the answer, that came with the decision."""

    id: str
    endpoint: str
    question: Question
    expires_at: float
    decision: Decision | None = None
    reason: str = ""
    done: bool = False
    allows: tuple[str, ...] = ()
    given: str = ""


class ApprovalLinks:
    """`public_url`: where the server is reached from outside; None: there are no links."""

    def __init__(self, store: Records, vault: Vault, now: Callable[[], float], public_url: str | None) -> None:
        self._store = store
        self._vault = vault
        self._now = now
        self._base = None if public_url is None else public_url.rstrip("/")

    async def of(self, stored: StoredNotice, allows: frozenset[str] = frozenset()) -> str | None:
        """The link of a notice, the same one as long as `allows` is the same; None: it has none, or it is over."""
        question, until, notice = stored.question, stored.link_until, stored.notice
        if self._base is None or question is None or until is None or until <= self._now():
            return None
        link = Link(
            id=notice.id, endpoint=notice.endpoint, question=question, expires_at=until, allows=tuple(sorted(allows))
        )
        if not await self._store.put_document(_KIND, link.id, encode(link), 0):
            await self._replace(link)
        return f"{self._base}/approvals/{self._token(link)}"

    async def _replace(self, link: Link) -> None:
        """A link that is there already stays as it is, unless the settings allow something else now and it was not used."""
        document = await self._store.document(_KIND, link.id)
        known = None if document is None else _read(document)
        if document is not None and known is not None and known.allows != link.allows and known.decision is None:
            await self._store.put_document(_KIND, link.id, encode(link), document.version)

    async def check(self, token: str) -> Link:
        """The link of a token, used or not; `LinkRefused` if it is not valid or has expired."""
        return (await self._open(token))[0]

    async def open(self, token: str) -> Link:
        """The link of a token that was not used; `LinkRefused` otherwise."""
        link, _ = await self._open(token)
        if link.done or link.decision is not None:
            raise LinkRefused("used")
        return link

    async def decide(self, token: str, decision: Decision, reason: str, given: str = "") -> Link:
        """Use the link up, durably. Returns it with the decision to write into the call; `settle` it then. `given`: the arguments or the
        answer that come with the decision. `LinkRefused`: it was used."""
        link, version = await self._open(token)
        if link.done or link.decision not in (None, decision):
            raise LinkRefused("used")
        if link.decision == decision:  # a process died before the decision was in the call
            if not self._is_given(link, given):
                raise LinkRefused("used")
            return link
        kept = self._vault.hash(_content(given), _identity(link)) if given else ""
        used = msgspec.structs.replace(link, decision=decision, reason=reason, given=kept)
        if not await self._store.put_document(_KIND, link.id, encode(used), version):
            raise LinkRefused("used")
        return used

    def _is_given(self, link: Link, given: str) -> bool:
        if not given or not link.given:
            return not given and not link.given
        return self._vault.verifies(link.given, _content(given), _identity(link))

    async def release(self, link: Link) -> None:
        """The call refused what came with the decision, and goes on waiting: the link can be used again."""
        unused = msgspec.structs.replace(link, decision=None, reason="", given="")
        await self._store.put_document(_KIND, link.id, encode(unused), None)

    async def settle(self, link: Link) -> None:
        """The decision is in the call, or the call takes none: the link does nothing any more."""
        done = msgspec.structs.replace(link, done=True)
        await self._store.put_document(_KIND, link.id, encode(done), None)

    async def sweep(self) -> None:
        """Remove links that were over a week ago."""
        after = ""
        oldest = self._now() - _KEPT
        while True:
            page = await self._store.documents(_KIND, after=after, limit=_PAGE)
            for document in page:
                link = _read(document)
                if link is None or link.expires_at < oldest:
                    await self._store.delete_document(_KIND, document.key)
            if len(page) < _PAGE:
                return
            after = page[-1].key

    async def _open(self, token: str) -> tuple[Link, int]:
        id, dot, sign = token.partition(".")
        fits = dot and len(token) <= 200 and token.isascii() and id.isalnum() is False and id.startswith("msg_")
        document = await self._store.document(_KIND, id) if fits else None
        link = None if document is None else _read(document)
        if document is None or link is None or self._base is None or link.id != id:
            raise LinkRefused("invalid")
        if not self._vault.verifies(sign.replace("-", ":", 1), _signed(link), _identity(link)):
            raise LinkRefused("invalid")
        if link.expires_at <= self._now():
            raise LinkRefused("expired")
        return link, document.version

    def _token(self, link: Link) -> str:
        return f"{link.id}.{self._vault.hash(_signed(link), _identity(link)).replace(':', '-', 1)}"


def _identity(link: Link) -> tuple[str, str, str]:
    return link.question.caller, link.question.thread, link.question.call


def _signed(link: Link) -> bytes:
    more = [list(link.allows)] if link.allows else []
    return canonical(["clicket approval link 1", link.id, link.question.seen, link.expires_at, link.endpoint, *more])


def _content(given: str) -> bytes:
    return canonical(["clicket approval link content 1", given])


def _read(document: StoredDocument) -> Link | None:
    try:
        return msgspec.json.decode(document.body, type=Link)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
