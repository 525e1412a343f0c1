"""Stage 2: may this call be made? A policy that fails is a policy that denies."""

from __future__ import annotations

from clicket.errors import PermissionDenied
from clicket.journal import LiveCall
from clicket.pipeline.policy import Policy, Request

__all__ = ["Authorize"]


class Authorize:
    name = "authorize"

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._open = policy.is_open

    def __call__(self, call: LiveCall) -> None:
        if self._open:
            return
        options = call.required_tool().options
        request = Request(
            tool=call.tool_name,
            thread=call.thread,
            caller=call.caller,
            tags=options.tags,
            permissions=options.permissions,
            arguments=call.request.arguments,
        )
        try:
            verdict, reason = self.policy.decide(request)
        except Exception as error:
            raise PermissionDenied(
                f"the policy failed on this call ({type(error).__name__}: {error}), so it is denied. Mend the policy."
            ) from error
        if verdict == "deny":
            raise PermissionDenied(f"{call.tool_name!r} may not be called here: {reason}. Ask who runs this runtime.")
        call.verdict = verdict
