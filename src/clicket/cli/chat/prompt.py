"""The interactive prompt: a line is a message to the agent, unless it begins with a slash."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from rich.text import Text

from clicket.agents import ThreadView
from clicket.cli.chat.conversation import Conversation
from clicket.cli.chat.keyboard import Terminated, read_line, term_raises
from clicket.cli.chat.turn_view import plan_lines, usage_words
from clicket.cli.errors import report
from clicket.cli.formatting import count_of, one_line, short, shown_url
from clicket.cli.terminal import clean, clean_lines
from clicket.engine.hub import ToolView
from clicket.errors import ClicketError, StoreUnavailable, did_you_mean
from clicket.model.chat import ChatMessage
from clicket.model.ids import new_id

__all__ = ["Prompt"]


class Prompt:
    """Reads a line, acts on it, and reads the next, until the person leaves."""

    def __init__(self, conversation: Conversation, *, model: str, attached: Sequence[str] = ()) -> None:
        self._conversation = conversation
        self._runner, self._terminal = conversation.runner, conversation.terminal
        self._run = self._runner.run
        self._model = model
        self._leaves = False
        self._attached = list(attached)
        """Paths of files that go with the next message."""
        self._commands: dict[str, tuple[Callable[[str], None], str]] = {
            "/help": (self._help, "this list"),
            "/state": (self._state, "the thread's state: turns, tokens, cost, calls that wait"),
            "/history": (self._history, "the messages of this thread"),
            "/tools": (self._tools, "the tools that the agent may use now, and why not the rest"),
            "/attach": (self._attach, "a file for the next message: /attach PATH; without a path none goes with it"),
            "/plan": (self._plan, "the last plan, with the states of its steps"),
            "/queue": (self._queue, "the messages that wait for a turn"),
            "/unsend": (self._unsend, "take a message back that waits: /unsend ID"),
            "/stop": (self._stop, "end a turn that runs in another process; your own is ended by Ctrl-C"),
            "/new": (self._new, "a new thread; /new NAME goes to the one of that name"),
            "/quit": (self._quit, "leave; so does Ctrl-D"),
        }

    def run(self) -> None:
        with term_raises():
            self._open()
            interrupted = False
            while not self._leaves:
                try:
                    line = self._read()
                except EOFError:
                    self._say("")
                    return
                except Terminated:
                    raise
                except KeyboardInterrupt:
                    if interrupted:
                        raise
                    interrupted = True
                    self._say("\nCtrl-C again, or /quit, leaves")
                    continue
                interrupted = False
                if line:
                    self._act_on(line)

    def _read(self) -> str:
        """A message. A line that ends with a backslash goes on with the next one."""
        lines = [read_line(self._terminal, "> ", remember=True)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(read_line(self._terminal, ". " if self._terminal.plain else "… ", remember=True))
        return "\n".join(lines).strip()

    def _act_on(self, line: str) -> None:
        """Errors are shown, and the conversation goes on, unless the store is unavailable."""
        try:
            name, _, argument = line.partition(" ")
            if not line.startswith("/"):
                self._conversation.turn(self._conversation.attached(line, self._attached) if self._attached else line)
                self._attached = []
            elif name in self._commands:
                self._commands[name][0](argument.strip())
            else:
                near = did_you_mean(name, self._commands)
                self._say(f"there is no {clean(name)}.{near} /help lists the commands.", "yellow")
        except StoreUnavailable:
            raise
        except ClicketError as error:
            report(error, self._terminal)

    def _say(self, text: str | Text, style: str = "bright_black") -> None:
        self._terminal.say(text, style=style)

    # Commands.

    @property
    def _thread(self) -> str:
        return self._conversation.thread

    def _look(self) -> ThreadView:
        return self._run(self._runner.agent.look(self._thread))

    def _open(self) -> None:
        view = self._look()
        turns = f"{count_of(view.turns, 'turn')} so far" if view.turns else "new"
        if not self._terminal.json:
            facts = [
                f"agent {clean(view.agent)}",
                clean(self._model),
                f"thread {clean(self._thread)}, {turns}",
                "/help",
            ]
            self._say(" · ".join(fact for fact in facts if fact))
        self._conversation.resume(watch=True)

    def _help(self, _: str) -> None:
        for name, (_command, about) in self._commands.items():
            self._say(Text(f"  {name:<10}", "cyan").append(about, "bright_black"), "")
        self._say("  Ctrl-C stops the turn that runs, twice leaves. A line that ends with \\ goes on with the next.")

    def _attach(self, path: str) -> None:
        if not path:
            self._attached = []
            self._say("no file goes with the next message")
        elif not Path(path).expanduser().is_file():
            self._say(f"there is no file {clean(path)}", "yellow")
        else:
            self._attached.append(path)
            self._say(f"with the next message: {clean(', '.join(self._attached))}")

    def _state(self, _: str) -> None:
        view = self._look()
        usage = usage_words(msgspec.to_builtins(view.usage))
        self._say(" · ".join([str(view.state), f"{view.turns} turns", *usage]))
        if view.error:
            self._say(f"the last turn failed: {clean_lines(view.error)}", "red")
        elif view.stopped not in (None, "finished"):
            self._say(f"the last turn was stopped: {view.stopped}", "yellow")
        for call_id in view.waiting_for:
            what = "" if call_id.startswith(("model:", "workspace:")) else "approval: "
            self._say(f"waits for {what}{clean(call_id)}", "yellow")
        self._say(f"store {shown_url(self._runner.runtime.settings.store)}")

    def _history(self, _: str) -> None:
        after: int | None = 0
        while after is not None:
            page = self._run(self._runner.agent.history(self._thread, after=after))
            if not page.turns and after == 0:
                self._say("there are no messages yet")
            for turn in page.turns:
                for message in turn.messages:
                    self._show_message(turn.turn, message)
                if turn.stopped != "finished":
                    self._say(f"      {clean_lines(turn.error or turn.text)}", "yellow")
            after = page.after

    def _show_message(self, turn: int, message: ChatMessage) -> None:
        text = one_line(message.content, 160)
        if message.role == "user":
            self._say(Text(f"{turn:>4}  ", "bright_black").append(f"> {text}", "bold"), "")
        elif message.role == "tool":
            self._say(f"        {text}", "red" if message.failed else "bright_black")
        else:
            if text:
                self._say(f"      {text}", "")
            for use in message.uses:
                name = Text(f"      {clean(use.name)} ", "cyan")
                self._say(name.append(short(use.arguments, 100), "bright_black"), "")

    def _tools(self, _: str) -> None:
        async def list_tools() -> list[ToolView]:
            return await self._runner.runtime.hub(self._thread).tools()

        tools = self._run(list_tools())
        for tool in tools:
            line = Text(f"  {clean(tool.name)}  ", "green" if tool.available else "yellow")
            self._say(line.append("" if tool.available else clean(tool.why or tool.reason), "bright_black"), "")
        if not tools:
            self._say("no tools; name some with --tools module:name, or list them in clicket.toml")

    def _plan(self, _: str) -> None:
        plan = self._look().plan
        if plan is None:
            self._say("there is no plan here; `clicket chat --plan` makes one for each turn")
            return
        for line in plan_lines(plan, plain=self._terminal.plain):
            self._say(line, "")

    def _queue(self, _: str) -> None:
        waiting = self._run(self._runner.agent.queued(self._thread))
        for message in waiting:
            line = Text(f"  {clean(message.id)}  ", "cyan").append(one_line(message.text, 160), "")
            self._say(line if message.when == "next" else line.append(f"  ({message.when})", "bright_black"), "")
        if not waiting:
            self._say("no message waits")

    def _unsend(self, id: str) -> None:
        removed = bool(id) and self._run(self._runner.agent.unsend(id, self._thread))
        self._say("taken back" if removed else "no such message waits; /queue lists those that do")

    def _stop(self, _: str) -> None:
        stopped = self._run(self._runner.agent.stop(self._thread, "stopped at the terminal"))
        self._say("asked it to stop" if stopped else "nothing runs here")

    def _new(self, name: str) -> None:
        self._conversation.thread = name or f"chat-{new_id()[-8:]}"
        self._open()

    def _quit(self, _: str) -> None:
        self._leaves = True
