"""`clicket fork`, `forks` and `rerun`: a new thread from any turn or step; the tree of forks; a turn run again without its effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from clicket.cli.commands.chat import declared_agent
from clicket.cli.completion import complete_thread
from clicket.cli.context import Context
from clicket.cli.errors import CallFailed
from clicket.cli.formatting import ago
from clicket.cli.options import CallerOption
from clicket.cli.terminal import Terminal, clean

if TYPE_CHECKING:
    from clicket.agents import Agent, Fork, ThreadView
    from clicket.runtime.runtime import Runtime

__all__ = ["fork", "forks", "rerun"]

_Thread = Annotated[str, typer.Argument(metavar="THREAD", help="The thread.", autocompletion=complete_thread)]
_Agent = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="An agent of the settings; the default agent if left out.")
]
_To = Annotated[str | None, typer.Option(metavar="NAME", help="The name of the new thread.")]


async def fork(
    context: Context,
    thread: _Thread,
    after: Annotated[
        int | None, typer.Option(metavar="TURN", help="The last turn that it has; default: all that have ended.")
    ] = None,
    step: Annotated[
        int | None, typer.Option(metavar="STEP", help="It also has the next turn, up to the results of this step.")
    ] = None,
    to: _To = None,
    agent: _Agent = None,
    caller: CallerOption = None,
) -> None:
    """Make a new thread with the turns of another one, up to a turn or a step. The old one is not changed."""
    async with context.joined() as runtime:
        view = await _agent(runtime, agent, {}, caller).fork(thread, after=after, step=step, to=to)
    if context.terminal.json:
        context.terminal.print_json(msgspec.to_builtins(view))
        return
    context.terminal.say(f"{clean(view.thread)} has {view.turns} turns of {clean(thread)}.")
    name = clean(view.thread)
    context.terminal.say(f"go on: clicket chat --thread {name}", style="bright_black")


async def forks(context: Context, thread: _Thread, agent: _Agent = None, caller: CallerOption = None) -> None:
    """List the forks of a thread, and theirs."""
    async with context.joined() as runtime:
        found = await _agent(runtime, agent, {}, caller).forks(thread)
    if context.terminal.json:
        context.terminal.print_json({"items": msgspec.to_builtins(found)})
    elif not found:
        context.terminal.say("there are no forks.", style="bright_black")
    else:
        context.terminal.say(clean(thread))
        _print(context.terminal, found, "")


def _print(terminal: Terminal, found: list[Fork], indent: str) -> None:
    for place, each in enumerate(found, start=1):
        is_last = place == len(found)
        origin = each.origin
        where = f"after turn {origin.after}" + ("" if origin.step is None else f", step {origin.step} of the next")
        terminal.say(
            f"{indent}{'└─' if is_last else '├─'} {clean(each.thread)}  {where}, {each.turns} turns, made {ago(each.made_at)}"
        )
        _print(terminal, each.forks, indent + ("   " if is_last else "│  "))


async def rerun(
    context: Context,
    thread: _Thread,
    turn: Annotated[int, typer.Argument(metavar="TURN", help="The number of the turn.")],
    model: Annotated[
        list[str] | None, typer.Option(metavar="VENDOR:NAME", help="Another model: openai:…, anthropic:…, script:FILE.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="Other instructions.")] = None,
    effects: Annotated[
        str,
        typer.Option(
            metavar="recorded|ask|live",
            help="What becomes of calls that are not on record: refused, asked about, or run.",
        ),
    ] = "recorded",
    to: _To = None,
    agent: _Agent = None,
    caller: CallerOption = None,
) -> None:
    """Run a turn again, in a fork of its thread. Tool calls on record get their recorded results, and do not run."""
    _ = context.needed_tools  # without tools no call can be made
    given: dict[str, Any] = {} if model is None else {"model": model}
    async with context.joined() as runtime:
        again = _agent(runtime, agent, given, caller)
        result = await again.rerun(thread, turn=turn, system=system, effects=effects, to=to)  # type: ignore[arg-type]  # it is checked there
        view = await again.look(result.thread)
    if context.terminal.json:
        context.terminal.print_json(
            {
                "thread": view.thread,
                "turn": result.turn,
                "stopped": result.stopped,
                "text": result.text,
                "steps": result.steps,
            }
        )
    else:
        _say(context.terminal, view, result.text)
    if result.stopped != "finished":
        raise CallFailed


def _say(terminal: Terminal, view: ThreadView, text: str) -> None:
    terminal.out.print(clean(text), markup=False, highlight=False)
    terminal.say(f"in thread {clean(view.thread)}", style="bright_black")


def _agent(runtime: Runtime, name: str | None, given: dict[str, Any], caller: str | None) -> Agent:
    agent = declared_agent(runtime, name, given).on(runtime)
    return agent if caller is None else agent.acting_for(runtime.acting_for(caller))
