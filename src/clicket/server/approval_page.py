"""`/approvals/{token}`: the approver page. Its link is made for one question about one call, works once, and needs no key.

GET shows the question and decides nothing: mail scanners open links. POST decides. Neither reads or changes anything else. If the
endpoint's settings allow it (`link_allows`), the holder may also change the arguments, or answer in the tool's place. Where a tool
itself asks, `respond` answers its question, and the tool goes on.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import parse_qs

import msgspec

from clicket.errors import Conflict, InvalidInput, NotFound, PermissionDenied, UsageError
from clicket.model import Record
from clicket.runtime.runtime import Runtime
from clicket.server.approval_html import POLICY, TEXTS, Tried, decision_page, language_of, message_page
from clicket.server.operations import BodySpec, Operation, ResponseSpec, tagged
from clicket.server.request import Request
from clicket.server.request_body import BodyReader
from clicket.server.responses import Response
from clicket.telemetry.webhooks import LinkRefused
from clicket.telemetry.webhooks.approval_links import Link
from clicket.tools.question import question_of

__all__ = ["ApprovalPageHandlers"]

_HTML = b"text/html; charset=utf-8"
_MAX_FORM = 16 * 1024
_MAX_EDITED = 512 * 1024
"""Of a form with arguments or an answer in it, which are percent-encoded."""
_MAX_REASON = 500
_STATUS = {"invalid": 404}
_DECISIONS: dict[str, Literal["approve", "deny", "respond"]] = {
    "approve": "approve", "deny": "deny", "respond": "respond",
}  # fmt: skip
_DONE = {"approve": "approved", "deny": "denied", "respond": "answered"}


class _Form(msgspec.Struct, frozen=True, kw_only=True):
    """`content`: the arguments, or the answer, that come with the decision."""

    decision: Literal["approve", "deny", "respond"] | None = None
    reason: str = ""
    arguments: str = ""
    output: str = ""

    @property
    def content(self) -> str:
        return {"approve": self.arguments, "respond": self.output}.get(self.decision or "", "")


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
        return _html(200, decision_page(record, link, language))

    async def decide(self, request: Request) -> Response:
        language = _language(request)
        links = self._runtime.notices.links
        token = request.path("token")
        try:
            known = await links.check(token)  # before the body is read
            form = await self._form(request, known)
            if form.decision is None:
                await links.open(token)
                return _html(400, message_page("choose", language))
            if form.decision == "respond" and (problem := _problem_of_output(form.output)):
                link = await links.open(token)
                text = TEXTS[language][_text_name(problem, await self._question(link))]
                return await self._again(link, form, text, language)
            link = await links.decide(token, form.decision, form.reason, form.content)
            try:
                done = await self._write(link, form)
            except (InvalidInput, PermissionDenied, UsageError) as error:  # the call goes on waiting
                await links.release(link)
                return await self._again(link, form, error.message, language)
            finally:
                if not await self._waits(link):
                    await links.settle(link)
        except LinkRefused as error:
            return _refused(error, language)
        return _html(200, message_page(done, language))

    async def _again(self, link: Link, form: _Form, problem: str, language: str) -> Response:
        """The form with what was written, and what is wrong with it."""
        tried = Tried(problem=problem, reason=form.reason, arguments=form.arguments or None, output=form.output or None)
        return _html(422, decision_page(await self._question(link), link, language, tried))

    async def _write(self, link: Link, form: _Form) -> str:
        """Write the decision into the call, if it waits with the same question. Returns the name of the text that says what was done."""
        before = await self._question(link)
        asked = link.question
        view = self._runtime.acting_for(link.question.caller)
        said: dict[str, Any] = {
            "thread": asked.thread, "by": f"link:{link.endpoint}", "reason": link.reason, "seen": asked.seen,
        }  # fmt: skip
        try:
            if link.decision == "respond":
                done = await view.respond(asked.call, msgspec.json.decode(form.output), **said)
            elif link.decision == "deny":
                done = await view.deny(asked.call, **said)
            else:
                done = await view.approve(asked.call, **said, arguments=form.arguments or None)
        except Conflict:
            raise LinkRefused("changed") from None
        except NotFound:
            raise LinkRefused("decided") from None
        if not done:
            raise LinkRefused("decided")
        after = await view.get(asked.call, thread=asked.thread)
        if after.waiting_for == "approval" and (after.approval or {}).get("hash") == asked.seen:
            return "more"
        return _text_name(_DONE[link.decision or "approve"], before)

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

    async def _form(self, request: Request, link: Link) -> _Form:
        """The form of a request. What the link does not allow is not read."""
        kind = (request.header(b"content-type") or "").partition(";")[0].strip().lower()
        limit = _MAX_EDITED if link.allows else _MAX_FORM
        body = b"".join([chunk async for chunk in self._body_reader.chunks(request, limit)])
        if kind != "application/x-www-form-urlencoded":
            return _Form()
        try:
            fields = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
        except ValueError:
            return _Form()
        chosen = fields.get("decision", [])
        decision = _DECISIONS.get(chosen[0]) if len(chosen) == 1 else None
        return _Form(
            decision=None if decision == "respond" and "respond" not in link.allows else decision,
            reason=" ".join(fields.get("reason", []))[:_MAX_REASON].replace("\x00", "").strip(),
            arguments=_only(fields, "arguments") if "edit" in link.allows else "",
            output=_only(fields, "output") if "respond" in link.allows else "",
        )

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
                description="Decide by the form of the approver page: `decision` is `approve` or `deny`, `reason` is optional. If the link "
                "allows it, `arguments` (JSON) replace those of the call, and `decision` may be `respond`, with `output` (JSON).",
                handler=self.decide,
                public=True,
                body=BodySpec(),
                responses={
                    200: ResponseSpec(description="It was decided.", media_type="text/html"),
                    400: ResponseSpec(description="The form has no decision.", media_type="text/html"),
                    422: ResponseSpec(
                        description="The arguments or the answer do not fit; the form again.", media_type="text/html"
                    ),
                    **pages,
                },
                problems=(408, 409, 413),
            ),
        )


def _text_name(name: str, record: Record) -> str:
    """The name of a text. A question of the call's tool has texts of its own."""
    return name if question_of(record.approval) is None else f"input_{name}"


def _only(fields: dict[str, list[str]], name: str) -> str:
    found = fields.get(name, [])
    return found[0].strip() if len(found) == 1 else ""


def _problem_of_output(text: str) -> str:
    """The name of the text that says what is wrong with an answer; empty: it is JSON."""
    if not text:
        return "no_output"
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return "not_json"
    return ""


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
