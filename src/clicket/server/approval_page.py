"""`/approvals/{token}`: the approver page. Its link is made for one question about one call, works once, and needs no key.

GET shows the question and decides nothing: mail scanners open links. POST decides. Neither reads or changes anything else.
"""

from __future__ import annotations

from typing import Literal
from urllib.parse import parse_qs

from clicket.errors import Conflict, NotFound
from clicket.model import Record
from clicket.runtime import Runtime
from clicket.server.approval_html import POLICY, decision_page, language_of, message_page
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response
from clicket.webhooks import LinkRefused
from clicket.webhooks.approval_links import Link

__all__ = ["ApprovalPageHandlers"]

_HTML = b"text/html; charset=utf-8"
_MAX_FORM = 16 * 1024
_MAX_REASON = 500
_STATUS = {"invalid": 404}
_DECISIONS: dict[str, Literal["approve", "deny"]] = {"approve": "approve", "deny": "deny"}


class ApprovalPageHandlers:
    def __init__(self, runtime: Runtime, body_reader: BodyReader) -> None:
        self._runtime = runtime
        self._body_reader = body_reader

    async def show(self, request: Request) -> Response:
        language = _language(request)
        try:
            link = await self._runtime.notices.links.open(request.path("token"))
            record = await self._question(link)
        except LinkRefused as error:
            return _refused(error, language)
        return _html(200, decision_page(record, link.expires_at, language))

    async def decide(self, request: Request) -> Response:
        language, links = _language(request), self._runtime.notices.links
        token = request.path("token")
        decision, reason = await self._form(request)
        try:
            if decision is None:
                await links.open(token)
                return _html(400, message_page("choose", language))
            link = await links.decide(token, decision, reason)
            try:
                await self._write(link)
            finally:
                if not await self._waits(link):
                    await links.settle(link)
        except LinkRefused as error:
            return _refused(error, language)
        return _html(200, message_page("approved" if decision == "approve" else "denied", language))

    async def _write(self, link: Link) -> None:
        """Write the decision into the call, if it waits with the same question."""
        await self._question(link)
        asked, by = link.question, f"link:{link.endpoint}"
        view = self._runtime.acting_for(asked.caller)
        act = view.approve if link.decision == "approve" else view.deny
        try:
            done = await act(asked.call, thread=asked.thread, by=by, reason=link.reason, seen=asked.seen)
        except Conflict:
            raise LinkRefused("changed") from None
        except NotFound:
            raise LinkRefused("decided") from None
        if not done:
            raise LinkRefused("decided")

    async def _waits(self, link: Link) -> bool:
        try:
            await self._question(link)
        except LinkRefused:
            return False
        return True

    async def _question(self, link: Link) -> Record:
        """The call, if it waits with the question that the link was made for."""
        asked = link.question
        try:
            record = await self._runtime.acting_for(asked.caller).get(asked.call, thread=asked.thread)
        except NotFound:
            raise LinkRefused("decided") from None
        if record.waiting_for != "approval" or record.approval is None:
            raise LinkRefused("decided")
        if record.approval["hash"] != asked.seen:
            raise LinkRefused("changed")
        return record

    async def _form(self, request: Request) -> tuple[Literal["approve", "deny"] | None, str]:
        kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
        body = b"".join([chunk async for chunk in self._body_reader.chunks(request, _MAX_FORM)])
        if kind != "application/x-www-form-urlencoded":
            return None, ""
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
        except ValueError:
            return None, ""
        chosen = fields.get("decision", [])
        decision = _DECISIONS.get(chosen[0]) if len(chosen) == 1 else None
        return decision, " ".join(fields.get("reason", []))[:_MAX_REASON].replace("\x00", "").strip()

    def operations(self) -> tuple[Operation, ...]:
        pages = {
            404: ResponseSpec(description="The link is not valid.", media_type="text/html"),
            410: ResponseSpec(
                description="The link has expired or was used, or its question is over.", media_type="text/html"
            ),
        }
        return tagged(
            "approvals",
            Operation(
                route="GET /approvals/{token}",
                description="The approver page of a link in a notice. It shows one question, and decides nothing.",
                handler=self.show,
                public=True,
                responses={200: ResponseSpec(description="The page.", media_type="text/html"), **pages},
            ),
            Operation(
                route="POST /approvals/{token}",
                description="Decide by the form of the approver page: `decision` is `approve` or `deny`, `reason` is optional.",
                handler=self.decide,
                public=True,
                body=BodySpec(),
                responses={
                    200: ResponseSpec(description="It was decided.", media_type="text/html"),
                    400: ResponseSpec(description="The form has no decision.", media_type="text/html"),
                    **pages,
                },
                problems=(408, 409, 413),
            ),
        )


def _language(request: Request) -> str:
    found = [value.decode("latin-1") for name, value in request.headers if name == b"accept-language"]
    return language_of(",".join(found))


def _refused(error: LinkRefused, language: str) -> Response:
    return _html(_STATUS.get(error.why, 410), message_page(error.why, language))


def _html(status: int, body: bytes) -> Response:
    """Browsers send the origin of a form only if the page allows a referrer within its own origin; nothing is sent to others."""
    response = Response(status, body, _HTML, (b"vary", b"accept-language"), policy=POLICY)
    response.headers = [
        (name, b"same-origin" if name == b"referrer-policy" else value) for name, value in response.headers
    ]
    return response
