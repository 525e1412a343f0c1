"""`clicket chat`: talk to an agent. Turns are durable: one that a crash interrupted goes on when the thread is opened again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from clicket.cli.context import Context
from clicket.cli.errors import INTERRUPTED, CallFailed
from clicket.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from clicket.agents import UserMessage
    from clicket.cli.chat.conversation import Conversation, Ending
    from clicket.runtime.agent_config import Declared
    from clicket.runtime.runtime import Runtime

__all__ = ["chat", "declared_agent"]

_UNNAMED = "default"
"""The name of an agent that only the command line describes."""
_NO_MODEL = (
    "no model is configured. Name one here: clicket chat --model openai:NAME (its key is in "
    "OPENAI_API_KEY) or anthropic:NAME (ANTHROPIC_API_KEY). Or declare an agent in clicket.toml: [agents.helper] with "
    'model = "openai:NAME", or for a server of your own (Ollama, vLLM, llama.cpp) model = {kind = "openai", model = "NAME", '
    'base_url = "http://localhost:11434/v1"}. To try it without a key: --model script:answers.json plays the answers of a file '
    'such as ["Hello.", "Goodbye."], and `clicket demo` ends with a whole turn.'
)


def chat(
    context: Context,
    message: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[MESSAGE]", help="Send this message, print the answer and exit; - reads it from stdin."
        ),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(metavar="NAME", help="An agent of the settings; the default agent if left out.")
    ] = None,
    thread: Annotated[str, typer.Option(help="The conversation. Its history is kept.")] = "default",
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="VENDOR:NAME",
            help="The model: openai:…, anthropic:…, script:FILE. Repeatable: the next one is asked if one fails.",
        ),
    ] = None,
    system: Annotated[str | None, typer.Option(metavar="TEXT", help="The system prompt.")] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Make a plan first, then carry it out step by step.")] = False,
    max_steps: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of model requests in a turn.")
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH",
            exists=True,
            dir_okay=False,
            help="An image or a file for the (first) message; may be repeated.",
        ),
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="An id for MESSAGE: sent again with it, it is the same turn, and its events are printed again.",
        ),
    ] = None,
) -> None:
    """Chat with an agent that uses your tools, and watch its tool calls.

    Ctrl-C stops the turn, twice exits; /help lists the commands. With a MESSAGE, or with stdin from a pipe, one turn: exits with
    0 when it finished, with 1 when it failed or was stopped. With --json each event is a line.
    """
    from clicket.cli.chat.agent_runner import AgentRunner
    from clicket.cli.chat.conversation import Conversation
    from clicket.cli.chat.keyboard import can_ask
    from clicket.cli.chat.prompt import Prompt

    context.terminal.lines = True
    given = {"model": model or None, "system": system, "kind": "plan" if plan else None, "max_steps": max_steps}
    runtime = context.runtime()
    declared = declared_agent(runtime, agent, {name: value for name, value in given.items() if value is not None})
    text = _message(message or [], interactive=can_ask())
    if id is not None and text is None:
        raise UsageError("--id belongs to one message: clicket chat MESSAGE --id TEXT.")
    with AgentRunner(runtime, declared.on) as runner:
        conversation = Conversation(runner, context.terminal, thread)
        if text is None:
            paths = [str(path) for path in attach or ()]
            Prompt(conversation, model=str(getattr(declared.model, "name", "")), attached=paths).run()
            return
        said = conversation.attached(text, [str(path) for path in attach]) if attach else text
        ending = _run_once(conversation, said) if id is None else conversation.turn(said, id)
    if ending != "finished":
        raise CallFailed(INTERRUPTED) if ending == "interrupted" else CallFailed


def declared_agent(runtime: Runtime, name: str | None, given: dict[str, Any]) -> Declared:
    """The agent of the settings, with the options of the command line in place of its own. Other agents are not made, so a missing
    key of theirs is not an error here."""
    from clicket.runtime.agent_config import declared_agents, default_name

    settings = runtime.settings
    if name is not None and settings.agents and name not in settings.agents:
        listed = ", ".join(map(repr, settings.agents))
        raise UsageError(f"there is no agent {name!r}.{did_you_mean(name, settings.agents)} Declared: {listed}.")
    wanted = name or default_name(settings.agents, settings)
    if wanted is None:
        if settings.agents and "model" not in given:
            listed = ", ".join(map(repr, settings.agents))
            raise UsageError(f"there are several agents ({listed}); name one with --agent, or set default_agent.")
        wanted = _UNNAMED
    table = settings.values.get("agents", {}).get(wanted, {})
    if "model" not in {**table, **given}:
        raise UsageError(_NO_MODEL)
    alone = settings.replace(agents={wanted: {**table, **given}}, default_agent=wanted)
    return declared_agents(runtime, alone)[wanted]


def _message(words: list[str], *, interactive: bool) -> str | None:
    """The message of a single turn; None: ask the person at the terminal."""
    if not words and interactive:
        return None
    piped = sys.stdin.buffer.read().decode("utf-8", "replace").strip() if not words or "-" in words else ""
    text = " ".join(piped if word == "-" else word for word in words or ["-"]).strip()
    if not text:
        raise UsageError("the message is empty. Write clicket chat MESSAGE, or pipe it in.")
    return text


def _run_once(conversation: Conversation, message: str | UserMessage) -> Ending:
    """One turn. If a crash interrupted a turn with the same message, that turn is finished instead."""
    resumed = conversation.resume(watch=False)
    text = message if isinstance(message, str) else message.text
    if resumed is not None and (resumed == "interrupted" or conversation.message == text):
        return resumed
    return conversation.turn(message)
