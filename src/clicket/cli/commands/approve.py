"""`clicket approve`, `clicket deny` and `clicket respond`: decide about a call that waits for approval, in any process.

Without an id the first two list the calls that wait. The decision is written into the store, where the call's owner reads it.
"""

from __future__ import annotations

import getpass
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from clicket.cli.call_list import call_columns, print_page
from clicket.cli.columns import Column
from clicket.cli.completion import complete_waiting
from clicket.cli.context import Context, find_call, summary_of
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import ago, as_state, decision_on, duration, short
from clicket.cli.options import CallerOption, ThreadOption
from clicket.cli.terminal import Terminal, clean
from clicket.errors import InvalidInput, UsageError
from clicket.model import Page, Record
from clicket.runtime.calls.approvals import Approver, approve_as, deny_as, respond_as
from clicket.runtime.runtime import Runtime
from clicket.tools import Registry, output_check
from clicket.tools.question import question_of

__all__ = ["approve", "deny", "read_option", "respond", "user_name"]

IdArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help="The id or its beginning; default: list the calls that wait.",
        autocompletion=complete_waiting,
    ),
]
ByOption = Annotated[str | None, typer.Option(metavar="NAME", help="Who decides; default: your user name.")]
ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Stored with the decision.")]
SeenOption = Annotated[
    str, typer.Option(metavar="HASH", help="Decide only if the approval still has this hash, as `--json` shows it.")
]


async def approve(
    context: Context,
    id: IdArgument = None,
    arguments: Annotated[
        str | None,
        typer.Option(
            metavar="JSON|@FILE", help="Run the call with these arguments instead; the original ones stay on record."
        ),
    ] = None,
    thread: ThreadOption = None,
    caller: CallerOption = None,
    by: ByOption = None,
    reason: ReasonOption = "",
    seen: SeenOption = "",
    grant_uses: Annotated[
        int | None, typer.Option(metavar="N", help="Also let this many later calls of the tool run.", min=1)
    ] = None,
    grant_seconds: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Also let later calls run, for so long.")
    ] = None,
    grant_thread: Annotated[
        str | None, typer.Option(metavar="THREAD", help="Also let later calls run in this thread.")
    ] = None,
    grant_arguments: Annotated[
        str | None,
        typer.Option(metavar="JSON|@FILE", help="Also let later calls run whose arguments fit this JSON Schema."),
    ] = None,
) -> None:
    """Approve a call that waits for approval, so that it runs.

    With a --grant- option, later calls of the same tool and caller run, too; several options limit them together.
    """
    schema = None if grant_arguments is None else _json(grant_arguments, "--grant-arguments")
    terms = {"uses": grant_uses, "seconds": grant_seconds, "thread": grant_thread, "arguments": schema}
    grant = {name: value for name, value in terms.items() if value is not None}
    await _decide(
        context,
        "approved",
        id,
        thread,
        caller,
        by=by,
        reason=reason,
        seen=seen,
        arguments=arguments,
        grant=grant or None,
    )


async def deny(
    context: Context,
    id: IdArgument = None,
    thread: ThreadOption = None,
    caller: CallerOption = None,
    by: ByOption = None,
    reason: ReasonOption = "",
    seen: SeenOption = "",
) -> None:
    """Deny a call that waits for approval, so that it fails.

    A question of the tool itself is declined, and the tool goes on without the answer.
    """
    await _decide(context, "denied", id, thread, caller, by=by, reason=reason, seen=seen)


async def respond(
    context: Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The id or its beginning.", autocompletion=complete_waiting)],
    output: Annotated[str, typer.Argument(metavar="JSON|TEXT|@FILE", help="The output; what is not JSON is text.")],
    thread: ThreadOption = None,
    caller: CallerOption = None,
    by: ByOption = None,
    reason: ReasonOption = "",
    seen: SeenOption = "",
) -> None:
    """Answer a call that waits for approval, in its tool's place, so that it completes.

    If the tool itself asks, this answers its question: a JSON object with the fields of its form.
    """
    text = read_option(output)
    try:
        answer = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        answer = text
    async with context.watcher() as runtime:
        view, record = await find_call(runtime, id, thread, caller)
        _check_output(context, record, answer)
        approver = Approver(user_name(by))
        done = await respond_as(
            view, record.id, answer, approver, thread=record.thread, reason=reason, seen=seen or approval_hash(record)
        )
        after = await view.get(record.id, thread=record.thread)
    _report(context.terminal, after, done, "answered", approver.name)


async def _decide(
    context: Context, decision: str, id: str | None, thread: str | None, caller: str | None, **given: Any
) -> None:
    arguments = given.pop("arguments", None)
    grant = given.pop("grant", None)
    reason = given["reason"]
    if id is None:
        if arguments is not None or grant is not None or reason:
            raise UsageError(f"name the call: clicket {'approve' if decision == 'approved' else 'deny'} ID …")
        await _list(context, thread, caller)
        return
    edited = None if arguments is None else read_option(arguments)
    async with context.watcher() as runtime:
        view, record = await find_call(runtime, id, thread, caller)
        if edited is not None and record.waiting_for == "approval":
            _validate(context, runtime, record, edited)
        name = user_name(given["by"])
        what = {"thread": record.thread, "reason": reason, "seen": given["seen"] or approval_hash(record)}
        if decision == "approved":
            done = await approve_as(view, record.id, Approver(name), arguments=edited, grant=grant, **what)
        else:
            done = await deny_as(view, record.id, Approver(name), **what)
        after = await view.get(record.id, thread=record.thread)
    _report(context.terminal, after, done, decision, name)


def approval_hash(record: Record) -> str:
    """The hash of the approval that a call waits for: a decision with it applies to this request for approval and to no later one."""
    return str((record.approval or {}).get("hash") or "") if record.waiting_for == "approval" else ""


def read_option(given: str) -> str:
    """The value of an option, or the text of the file that it names with `@FILE`."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{given[1:]}: cannot be read: {error}.") from None


def _json(given: str, option: str) -> Any:
    try:
        return msgspec.json.decode(read_option(given))
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise UsageError(f"{option} is not JSON: {error}.") from None


def _validate(context: Context, runtime: Runtime, record: Record, given: str) -> None:
    """Validate edited arguments. The runtime has no tools, so that it takes over no calls; the schema comes from the session's."""
    runtime.examine(record, given, registry=Registry(context.tools))


def _check_output(context: Context, record: Record, output: Any) -> None:
    """Check an answer with the output schema of the context's tool. The runtime has no tools, so that it takes over no calls. An answer
    to a question of the tool has the question's schema."""
    if question_of(record.approval) is not None:
        return
    tool = Registry(context.tools).get(record.tool)
    check = None if tool is None else output_check(tool)
    problems = [] if check is None else check(output)
    if problems:
        raise InvalidInput(problems, f"See the output schema of {record.tool!r}.", whole="(output)")


def user_name(by: str | None) -> str:
    if by is not None:
        return by
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # the user has no name
        return ""


def _report(terminal: Terminal, record: Record, done: bool, decision: str, by: str) -> None:
    if terminal.json:
        found = {"id": record.id, "thread": record.thread, "decided": done, "state": str(record.state)}
        terminal.print_json({**found, "approval": record.approval})
    elif done:
        asked: dict[str, Any] = record.approval or {}
        more = " with other arguments" if asked.get("edited") else ""
        if asked.get("grant"):
            more += f"; later calls run by grant {asked['grant']}"
        if record.waiting_for == "approval" and decision == "approved":
            missing = asked["approvers"] - len(asked["approvals"])
            more += f"; {missing} more must approve it before it runs"
        name = f" by {clean(by)}" if by else ""
        terminal.say(as_state(record.state).append(f"  {clean(record.id)} is {decision}{name}{more}"))
    else:
        before = decision_on(record)
        earlier = f" any more: it was {before[0]} already, {before[1]}" if before else " (any more)"
        terminal.say(as_state(record.state).append(f"  {clean(record.id)} does not wait for approval{earlier}"))
    if not done:
        raise CallFailed


async def _list(context: Context, thread: str | None, caller: str | None) -> None:
    terminal = context.terminal
    page = Page(items=[])
    if context.store_exists:
        async with context.watcher() as runtime:
            sees = runtime if caller is None else runtime.acting_for(caller)
            page = await sees.history(waiting_for="approval", thread=thread, limit=1_000)
    if terminal.json:
        calls = [{**summary_of(record), "arguments": record.arguments, **_question(record)} for record in page.items]
        terminal.print_json({"items": calls, "calls": calls, "cursor": page.cursor})
        return
    if not page.items:
        terminal.say("no call waits for approval.", style="bright_black")
        return
    _print(terminal, page)
    if page.cursor is not None:
        terminal.say("there are more calls than are shown.", style="bright_black")


def _question(record: Record) -> dict[str, Any]:
    """What the call's tool asks, for programs; empty: it asks for an approval."""
    asked = record.approval or {}
    return {"question": asked["question"]} if "question" in asked else {}


def _print(terminal: Terminal, page: Page) -> None:
    asked: list[dict[str, Any]] = [record.approval or {} for record in page.items]
    columns = [
        *call_columns(page.items, thread_rank=4),
        Column("ASKED", [ago(a.get("requested_at") or r.updated_at) for a, r in zip(asked, page.items, strict=True)], rank=2),
        Column("LEFT", [_left(a.get("deadline")) for a in asked], rank=3),
        Column("WHY", [short(str(a.get("why") or ""), 80) for a in asked], rank=1, least=12),
        Column(
            "ARGUMENTS",
            [short(msgspec.json.encode(record.arguments).decode(), 200) for record in page.items],
            rank=7, least=12,
        ),
    ]  # fmt: skip
    print_page(terminal, columns)


def _left(deadline: float | None) -> str:
    return "" if deadline is None else duration(max(deadline - time.time(), 0.0))
