"""`clicket chat`: talk to an agent. Each turn is durable: what a crash cut off goes on when the thread is opened again."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clicket.cli.errors import INTERRUPTED, CallFailed
from clicket.cli.session import Session
from clicket.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from clicket.agent_config import Declared
    from clicket.cli.chat_talk import Ending, Talk
    from clicket.runtime import Runtime

__all__ = ["chat"]

_UNNAMED = "default"
"""What the agent is called that only the command line describes."""
_NO_MODEL = (
    "no model is configured, so nobody would answer. Name one here: clicket chat --model openai:NAME (its key is in "
    "OPENAI_API_KEY) or anthropic:NAME (ANTHROPIC_API_KEY). Or declare an agent in clicket.toml: [agents.helper] with "
    'model = "openai:NAME", or for a server of your own (Ollama, vLLM, llama.cpp) model = {kind = "openai", model = "NAME", '
    'base_url = "http://localhost:11434/v1"}. To try it without a key: --model script:answers.json plays the answers of a file '
    'such as ["Hello.", "Goodbye."], and `clicket demo` ends with a whole turn.'
)


def chat(
    session: Session,
    message: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MESSAGE]", help="Say this, print the answer and leave; - is what stdin has."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of the agents in the settings; else the default.")
    ] = None,
    thread: Annotated[str, typer.Option(help="The conversation; it is remembered.")] = "default",
    model: Annotated[
        str | None, typer.Option(metavar="VENDOR:NAME", help="Who answers: openai:…, anthropic:…, script:FILE.")
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="What the model is told before all else.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Make a plan first, then carry it out step by step.")] = False,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Answers of the model in one turn, at most.")
    ] = None,
) -> None:
    """Talk to an agent that uses your tools, with every tool call live.

    Ctrl-C stops the turn, twice leaves; /help lists what else there is. With a MESSAGE, or with stdin from a pipe, one turn:
    exits with 0 when it finished, with 1 when it failed or was stopped. With --json each event is a line.
    """
    from clicket.cli.chat_desk import Desk
    from clicket.cli.chat_input import can_ask
    from clicket.cli.chat_prompt import Prompt
    from clicket.cli.chat_talk import Talk

    session.terminal.lines = True
    told = {"model": model, "system": system, "kind": "plan" if plan else None, "max_steps": max_steps}
    runtime = session.runtime()
    declared = _declared(runtime, agent, {name: value for name, value in told.items() if value is not None})
    said = _said(message or [], asked=can_ask())
    with Desk(runtime, declared.on) as desk:
        talk = Talk(desk, session.terminal, thread)
        if said is None:
            Prompt(talk, model=str(getattr(declared.model, "name", ""))).converse()
            return
        ending = _once(talk, said)
    if ending != "finished":
        raise CallFailed(INTERRUPTED) if ending == "interrupted" else CallFailed


def _declared(runtime: Runtime, name: str | None, told: dict[str, Any]) -> Declared:
    """The agent that is meant, with what the command line says in place of what the settings say. The others are not looked at:
    a key that one of them lacks is no trouble of this one."""
    from clicket.agent_config import declared_agents, default_name

    settings = runtime.settings
    if name is not None and settings.agents and name not in settings.agents:
        listed = ", ".join(map(repr, settings.agents))
        raise UsageError(f"there is no agent {name!r}.{did_you_mean(name, settings.agents)} Declared: {listed}.")
    wanted = name or default_name(settings.agents, settings)
    if wanted is None:
        if settings.agents and "model" not in told:
            listed = ", ".join(map(repr, settings.agents))
            raise UsageError(f"there are several agents ({listed}); say which with --agent, or set default_agent.")
        wanted = _UNNAMED
    table = settings.agents.get(wanted, {})
    if not isinstance(table, dict):
        table = {"model": table}  # which is refused, with its place
    if "model" not in {**table, **told}:
        raise UsageError(_NO_MODEL)
    alone = settings.replace(agents={wanted: {**table, **told}}, default_agent=wanted)
    return declared_agents(runtime, alone)[wanted]


def _said(words: list[str], *, asked: bool) -> str | None:
    """The message of a single turn; None: there is a person to talk with."""
    if not words and asked:
        return None
    piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip() if not words or "-" in words else ""
    text = " ".join(piped if word == "-" else word for word in words or ["-"]).strip()
    if not text:
        raise UsageError("the message is empty. Say something: clicket chat MESSAGE, or pipe it in.")
    return text


def _once(talk: Talk, message: str) -> Ending:
    """One turn. If it is the one that a crash cut off, that one is finished, and not begun a second time."""
    resumed = talk.resume(watch=False)
    if resumed is not None and (resumed == "interrupted" or talk.heard == message):
        return resumed
    return talk.turn(message)
