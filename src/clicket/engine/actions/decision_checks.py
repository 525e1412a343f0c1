"""Does what a person decides fit? Checks other arguments for a call that waits, and answers, before a decision is written."""

from __future__ import annotations

from typing import Any

import msgspec

from clicket.engine.core import Core
from clicket.engine.journal import Entry
from clicket.engine.live_call import Call, Origin
from clicket.engine.stages import Authorize, Find, Policy, Validate
from clicket.errors import ClicketError, Conflict, InvalidInput, PermissionDenied, ResultUnserializable, UsageError
from clicket.kernel import State
from clicket.model import Record, ToolCall
from clicket.model.arguments import parse_arguments
from clicket.model.output import plain_output
from clicket.model.ports import Stored
from clicket.safety.vault import Secrets, hide, hide_said, hide_text, look
from clicket.tools import Registry, Tool, output_check
from clicket.tools.question import InputQuestion, check_content

__all__ = ["Answer", "DecisionChecks", "examine"]


class Answer(msgspec.Struct, frozen=True):
    """What a person answers in the tool's place. `settles`: the call was started before, and the person says that its effect happened."""

    output: Any
    settles: bool = False


class DecisionChecks:
    def __init__(self, core: Core) -> None:
        self._registry = core.registry
        self._policy = core.policy
        self._arguments = core.arguments
        self._max_size = core.limits.max_arguments_size

    def secrets_of(self, stored: Stored, call: Call | None) -> Secrets | None:
        """The secrets in the arguments of a call: what is recorded about it must not show them."""
        return self._arguments.secrets_of(stored.id, stored.events, call)

    def edit(self, record: Record, arguments: Any, call: Call | None) -> dict[str, Any]:
        """The part of a decision that replaces the arguments; empty: they equal the present ones."""
        edited = self.examined(record, arguments, call=call)
        if edited is None:
            return {}
        if record.approval is not None and record.approval["approvers"] > 1:
            raise UsageError(
                f"call {record.id!r} needs {record.approval['approvers']} approvers, and all must see the same arguments. Deny it, and "
                "submit it with these."
            )
        return self._arguments.recorded_edit(record, call, edited)

    def answer(self, record: Record, answer: Answer) -> Any:
        """The output as it is recorded. `InvalidInput`: it does not fit the tool's output schema; the call goes on waiting."""
        if record.state is not State.PENDING and not answer.settles:
            raise Conflict(
                f"call {record.id!r} was started before, and its effect may have happened: it cannot be answered. Approve it to run it "
                "again, or deny it."
            )
        output = self._plain(answer)
        tool = self._registry.get(record.tool)
        check = None if tool is None else output_check(tool)
        problems = [] if check is None else check(output)
        if problems:
            raise InvalidInput(problems, f"See the output schema of {record.tool!r}.", whole="(output)")
        return output

    def _plain(self, answer: Answer) -> Any:
        try:
            output, text = plain_output(answer.output)
        except ResultUnserializable as error:
            raise UsageError(f"the output cannot be recorded: {error.message}") from None
        if len(text) > self._max_size:
            raise UsageError(
                f"the output has {len(text):,} bytes as JSON, and an answer takes {self._max_size:,} (max_arguments_size). Store it with "
                "put_artifact, and give its name as the output."
            )
        return output

    def input_for(
        self, question: InputQuestion, record: Record, answer: Answer | None, secrets: Secrets | None
    ) -> dict[str, Any]:
        """The part of a decision that answers a question of the call's tool; `InvalidInput` or `UsageError`: it goes on waiting."""
        if answer is None:
            if question.schema is not None:
                raise UsageError(
                    f"call {record.id!r} waits for an answer. {question.why[:300]} Respond with the fields of its form "
                    "(record.approval['question']['schema']), or deny it."
                )
            return {}
        content = check_content(question, self._plain(answer), record.id)
        if hide(content, secrets) != content:
            raise UsageError(
                "the answer has a secret in it, and is recorded and sent to the system that asked. Secrets do not belong into a form."
            )
        return {"responded": True, "output": content}

    def examined(
        self, record: Record, arguments: Any, *, call: Call | None = None, registry: Registry | None = None
    ) -> dict[str, Any] | None:
        """Other arguments for a call that waits, unmasked and validated; None: they equal the present ones.

        `InvalidInput` or `PermissionDenied` if they do not fit. `registry`: validate with these tools in place of the runtime's own.
        """
        edited = self._arguments.unmasked(record, call, arguments)
        if edited is None:
            return None
        tools = self._registry if registry is None else registry
        return examine(tools, self._policy, record, edited, max_size=self._max_size)


def examine(registry: Registry, policy: Policy, record: Record, arguments: Any, *, max_size: int) -> dict[str, Any]:
    """Arguments for a call that waits, as they will be recorded; `InvalidInput` or `PermissionDenied` if they do not fit.

    If the tool is not registered here, only the process that runs the call validates them.
    """
    plain = parse_arguments(arguments, max_size=max_size)
    tool = registry.get(record.tool)
    try:
        _examine(registry, policy, record, tool, plain, max_size)
    except (InvalidInput, PermissionDenied) as error:
        # The approver saw masks; an error about the arguments may quote the masked values.
        declared = record.events[0].data.get("sensitive") or () if tool is None else tool.options.sensitive
        raise _masked(error, look(plain, None, frozenset(declared), refuse=False)) from None
    return plain


def _examine(
    registry: Registry, policy: Policy, record: Record, tool: Tool | None, plain: dict[str, Any], max_size: int
) -> None:
    scopes = frozenset(record.events[0].data.get("scopes") or ())
    if tool is not None:
        entry = Entry(record.id, record.thread, record.caller, record.tool, 0.0)
        request = ToolCall(record.tool, plain, thread=record.thread)
        trial = Call(entry, request, Origin(record.caller, scopes), 0.0, "", plain)
        Find(registry, _no_check).registered(trial)
        Validate(max_size=max_size)(trial)
    if not policy.is_open and (tool is None or not tool.traits.internal):
        Authorize(policy, max_size=max_size).check(
            tool, record.tool, plain, thread=record.thread, caller=record.caller, scopes=scopes
        )


def _no_check(call: Call, tool: Tool) -> None:
    """Does not check the tool's health: the call was admitted before."""


def _masked(error: InvalidInput | PermissionDenied, secrets: Secrets | None) -> ClicketError:
    """An error for a caller, without secrets."""
    error.message = hide_text(error.message, secrets)
    error.args, error.details = (error.message,), hide_said(error.details, secrets)
    if isinstance(error, InvalidInput):
        error.problems = error.details["problems"]
    return error
