"""Stage 2: may this call be made? If the policy raises, the call is denied."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from clicket.engine.live_call import Call, Question
from clicket.engine.stages.policy import Decision, Policy, Request
from clicket.errors import PermissionDenied
from clicket.model.names import AGENT_PART
from clicket.model.undo import UNDO_PART
from clicket.tools import Tool

__all__ = ["Authorize"]

_TEXT = (str, bytes, bytearray)


def _find_nothing(name: str) -> Tool | None:
    return None


class Authorize:
    name = "authorize"

    def __init__(
        self,
        policy: Policy,
        find: Callable[[str], Tool | None] = _find_nothing,
        *,
        max_size: int = 1024 * 1024,
        some_ask: bool = False,
    ) -> None:
        """`find`: a registered tool by its name, for the tags and permissions of a tool whose parts are called."""
        self.policy = policy
        self._open = policy.is_open
        self._find = find
        self._max_size = max_size
        self.checks_all = some_ask or not policy.is_open
        """False: a call of the program itself need not be checked."""

    def __call__(self, call: Call) -> None:
        entry, tool = call.entry, call.tool
        if call.denied:
            call.verdict = "deny"
            call.reason = call.denied
            raise PermissionDenied(f"{entry.tool!r} may not be called here: {call.denied}.", reason=call.denied)
        asks = call.origin.asks
        if entry.internal:
            asks = asks or ("" if tool is None else tool.traits.asks)
            if asks:
                self._ask_always(call, asks)
            return
        if self._open and (not entry.caller or tool is None or not tool.options.permissions):
            if asks:
                self._ask_always(call, asks)
            return
        given = call.given
        try:
            self._refuse_part(call, tool)
            decision = self.check(
                tool, entry.tool, given, thread=entry.thread, caller=entry.caller, scopes=call.origin.scopes
            )
        except PermissionDenied as denied:
            call.verdict = "deny"
            call.reason = denied.details["reason"]
            raise
        if decision.plain is not None and not isinstance(given, _TEXT):
            # A mapping may be foreign code, and return other values when it is read a second time.
            call.replace_given(decision.plain)
        call.verdict = decision.verdict
        if decision.verdict == "ask":
            call.reason, call.approval_timeout = decision.reason, decision.timeout
            call.question = Question(decision.rule, decision.approvers, decision.self_approval)
        if asks:
            self._ask_always(call, asks)
            if decision.verdict == "ask":  # one question for both, which no grant for the policy's rule answers
                call.reason, call.approval_timeout = f"{asks}; {decision.reason}", decision.timeout
                call.question = Question("", max(self.policy.approvers, decision.approvers), decision.self_approval)

    def _ask_always(self, call: Call, why: str) -> None:
        """A person decides about the call, whatever the policy allows."""
        call.verdict, call.reason, call.approval_timeout = "ask", why, self.policy.approval_timeout
        call.question = Question("", self.policy.approvers, self.policy.self_approval)

    def _refuse_part(self, call: Call, tool: Tool | None) -> None:
        """What denies a tool denies its parts. An approval of its call is one for the parts that this call uses."""
        name = "" if tool is None else tool.traits.part_of
        if name in ("", AGENT_PART, UNDO_PART):
            return
        entry = call.entry
        request = self._request(self._find(name), name, None, entry.thread, entry.caller, call.origin.scopes)
        why = self.policy.forbids(request)
        if why is not None:
            raise _denied(entry.tool, f"it is a part of {name!r}: {why}")

    def check(
        self, tool: Tool | None, name: str, arguments: Any, *, thread: str, caller: str, scopes: Iterable[str]
    ) -> Decision:
        """Allow or ask, else raise `PermissionDenied`. For a tool that is not registered here, the policy sees only its name."""
        request = self._request(tool, name, arguments, thread, caller, frozenset(scopes))
        try:
            decision = self.policy.decide(request)
        except Exception as error:
            raise PermissionDenied(
                f"the policy failed on this call ({type(error).__name__}: {error}), so it is denied. Fix the policy.",
                reason=f"the policy failed: {type(error).__name__}",
            ) from error
        if decision.verdict == "deny":
            raise _denied(name, decision.reason)
        return decision

    def forbidding(
        self, thread: str | None, caller: str, scopes: frozenset[str]
    ) -> Callable[[Tool], str | None] | None:
        """Says why the policy denies every call of a tool, for all arguments; its None: the policy may allow some. None: it denies this
        caller no tool. `thread`: None stands for all threads."""
        if self._open and not caller:
            return None

        def forbids(tool: Tool) -> str | None:
            if self._open and not tool.options.permissions:
                return None
            request = self._request(tool, tool.name, None, thread or "", caller, scopes)
            return self.policy.forbids(request, in_every_thread=thread is None)

        return forbids

    def _request(
        self, tool: Tool | None, name: str, arguments: Any, thread: str, caller: str, scopes: frozenset[str]
    ) -> Request:
        return Request(
            tool=name,
            thread=thread,
            caller=caller,
            tags=tool.options.tags if tool is not None else frozenset(),
            permissions=tool.options.permissions if tool is not None else frozenset(),
            arguments=arguments,
            scopes=scopes,
            schema=tool.input_schema if tool is not None else {},
            max_size=self._max_size,
        )


def _denied(name: str, reason: str) -> PermissionDenied:
    why = reason.rstrip(".")
    return PermissionDenied(f"{name!r} may not be called here: {why}. Ask the operator of this runtime.", reason=reason)
