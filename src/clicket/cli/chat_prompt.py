"""The prompt of a conversation: what is typed is said to the agent, unless it begins with a slash."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from clicket.cli.chat_input import Told, ask, told_to_leave
from clicket.cli.chat_talk import Talk
from clicket.cli.chat_view import plan_lines, usage_words
from clicket.cli.errors import report
from clicket.cli.terminal import clean, clean_lines
from clicket.cli.words import short
from clicket.errors import ClicketError, StoreUnavailable, did_you_mean
from clicket.model.chat import ChatMessage
from clicket.model.ids import new_id

__all__ = ["Prompt"]

_WIDTH = 160


class Prompt:
    """Asks, says, and asks again, until somebody leaves."""

    def __init__(self, talk: Talk, *, model: str) -> None:
        self._talk = talk
        self._terminal = talk.terminal
        self._model = model
        self._leaves = False
        self._commands: dict[str, tuple[Callable[[str], None], str]] = {
            "/help": (self._help, "this list"),
            "/state": (self._state, "where the thread stands: turns, tokens, cost, what waits"),
            "/history": (self._history, "what was said in this thread"),
            "/tools": (self._tools, "what the agent may use now, and why not the rest"),
            "/plan": (self._plan, "the last plan, with the states of its steps"),
            "/stop": (self._stop, "end a turn that runs in another process; your own is ended by Ctrl-C"),
            "/new": (self._new, "another thread; /new NAME goes to the one of that name"),
            "/quit": (self._quit, "leave; so does Ctrl-D"),
        }

    def converse(self) -> None:
        with told_to_leave():
            self._open()
            pressed = False
            while not self._leaves:
                try:
                    line = self._line()
                except EOFError:
                    self._terminal.say("")
                    return
                except Told:
                    raise
                except KeyboardInterrupt:
                    if pressed:
                        raise
                    pressed = True
                    self._terminal.say("\nCtrl-C again, or /quit, leaves", style="bright_black")
                    continue
                pressed = False
                if line:
                    self._take(line)

    def _line(self) -> str:
        """What is said next; a backslash at the end of a line goes on with the next one."""
        lines = [ask(self._terminal, "> ", remember=True)]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(ask(self._terminal, "… " if not self._terminal.plain else ". ", remember=True))
        return "\n".join(lines).strip()

    def _take(self, line: str) -> None:
        """Whatever goes wrong is said, and the conversation goes on; not so without a store."""
        try:
            if not line.startswith("/"):
                self._talk.turn(line)
                return
            word, _, rest = line.partition(" ")
            known = self._commands.get(word)
            if known is None:
                near = did_you_mean(word, self._commands)
                self._aside(f"there is no {clean(word)}.{near} /help lists what there is.", "yellow")
                return
            known[0](rest.strip())
        except StoreUnavailable:
            raise
        except ClicketError as error:
            report(error, self._terminal)

    def _aside(self, text: str | Text, style: str = "bright_black") -> None:
        self._terminal.say(text, style=style)

    # Commands.

    def _open(self) -> None:
        talk = self._talk
        view = talk.desk.look(talk.thread)
        turns = f"{view.turns} turn{'' if view.turns == 1 else 's'} so far" if view.turns else "new"
        if not self._terminal.json:
            words = [f"agent {clean(view.agent)}", clean(self._model), f"thread {clean(talk.thread)}, {turns}", "/help"]
            self._aside(" · ".join(word for word in words if word))
        talk.resume(watch=True)

    def _help(self, _: str) -> None:
        for word, (_command, about) in self._commands.items():
            self._aside(Text(f"  {word:<10}", "cyan").append(about, "bright_black"), "")
        self._aside("  Ctrl-C stops the turn that runs, twice leaves. A line that ends with \\ goes on with the next.")

    def _state(self, _: str) -> None:
        talk = self._talk
        view = talk.desk.look(talk.thread)
        words = [str(view.state), f"{view.turns} turns", *usage_words(_usage(view.usage))]
        self._aside(" · ".join(words))
        if view.error:
            self._aside(f"the last turn failed: {clean_lines(view.error)}", "red")
        elif view.stopped not in (None, "finished"):
            self._aside(f"the last turn was stopped: {view.stopped}", "yellow")
        for call_id in view.waiting_for:
            self._aside(f"waits for a person: {clean(call_id)}", "yellow")
        self._aside(f"store {talk.desk.store_url}")

    def _history(self, _: str) -> None:
        after: int | None = 0
        empty = True
        while after is not None:
            page = self._talk.desk.history(self._talk.thread, after)
            for turn in page.turns:
                empty = False
                for said in turn.messages:
                    self._tell(turn.turn, said)
                if turn.stopped != "finished":
                    self._aside(f"      {clean_lines(turn.error or turn.text)}", "yellow")
            after = page.after
        if empty:
            self._aside("nothing was said here yet")

    def _tell(self, turn: int, said: ChatMessage) -> None:
        text = short(" ".join(said.content.split()), _WIDTH)
        if said.role == "user":
            self._aside(Text(f"{turn:>4}  ", "bright_black").append(f"> {text}", "bold"), "")
        elif said.role == "tool":
            self._aside(f"        {text}", "red" if said.failed else "bright_black")
        else:
            if text:
                self._aside(f"      {text}", "")
            for use in said.uses:
                self._aside(
                    Text(f"      {clean(use.name)} ", "cyan").append(short(use.arguments, 100), "bright_black"), ""
                )

    def _tools(self, _: str) -> None:
        tools = self._talk.desk.tools(self._talk.thread)
        for tool in tools:
            line = Text(f"  {clean(tool.name)}  ", "green" if tool.available else "yellow")
            self._aside(line.append("" if tool.available else clean(tool.why or tool.reason), "bright_black"), "")
        if not tools:
            self._aside("no tools; name some with --tools module:name, or list them in clicket.toml")

    def _plan(self, _: str) -> None:
        plan = self._talk.desk.look(self._talk.thread).plan
        if plan is None:
            self._aside("there is no plan here; `clicket chat --plan` makes one for each turn")
            return
        for line in plan_lines(plan, plain=self._terminal.plain):
            self._aside(line, "")

    def _stop(self, _: str) -> None:
        stopped = self._talk.desk.stop(self._talk.thread)
        self._aside("asked it to stop" if stopped else "nothing runs here")

    def _new(self, name: str) -> None:
        self._talk.thread = name or f"chat-{new_id()[-8:]}"
        self._open()

    def _quit(self, _: str) -> None:
        self._leaves = True


def _usage(usage: object) -> dict[str, float]:
    return {name: getattr(usage, name) for name in ("input_tokens", "output_tokens", "cost")}
