"""A conversation at the terminal, turn by turn. Ctrl-C ends the turn, not the program; what a crash cut off goes on first."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from shlex import quote
from typing import Literal

from rich.text import Text

from clicket.agents import AgentEvent
from clicket.cli.chat_desk import Desk, Found, Interrupted, Over
from clicket.cli.chat_input import ask, can_ask, pressed_as_news, told_to_leave
from clicket.cli.chat_view import ChatView
from clicket.cli.commands.approve import asked_in, who
from clicket.cli.terminal import Terminal, clean
from clicket.cli.words import short
from clicket.errors import AgentBusy
from clicket.model import Event

__all__ = ["Ending", "Talk"]

Ending = Literal["finished", "stopped", "failed", "interrupted"]


class Talk:
    """Shows the turns of one thread, asks what has to be asked, and says how each turn ended."""

    def __init__(self, desk: Desk, terminal: Terminal, thread: str) -> None:
        self.desk = desk
        self.terminal = terminal
        self.thread = thread
        self.view = ChatView(terminal, lambda call_id: desk.record(call_id, self.thread))
        self.heard = ""
        """What the person said in the turn that was shown last."""
        self._asked: set[str] = set()

    # Turns.

    def resume(self, *, watch: bool) -> Ending | None:
        """Show the turn that is under way to its end. None: there is none, or it runs elsewhere and is not to be watched."""
        found = self.desk.take_up(self.thread)
        if found is None or (found.elsewhere and not watch):
            return None
        if not self.terminal.json:
            self._tell_found(found)
        with self._listening():
            self.desk.follow(found)
            return self._attend(found)

    def _tell_found(self, found: Found) -> None:
        if found.elsewhere:
            told = "runs in another process; you watch it. Ctrl-C leaves it to itself, /stop ends it."
        else:
            told = "was cut off before it ended. It goes on now; what is on record is not done again."
        self.terminal.say(f"Turn {found.turn} of thread {clean(self.thread)} {told}", style="yellow")

    def turn(self, message: str) -> Ending:
        """One turn, from what is said to how it ends."""
        try:
            with self._listening():
                self.desk.send(message, self.thread)
                return self._attend(None)
        except AgentBusy:
            raise AgentBusy(
                f"thread {self.thread!r} has a turn under way in another process, and a thread has one at a time. Watch it with "
                f"`clicket chat --thread {quote(self.thread)}` (/stop there ends it), or use another thread."
            ) from None

    @contextmanager
    def _listening(self) -> Iterator[None]:
        """Before the turn begins, so that no Ctrl-C falls in between."""
        self.desk.forget_news()
        with pressed_as_news(self.desk.news):
            yield

    def _attend(self, found: Found | None) -> Ending:
        ending: Ending = "failed"
        pressed = stopped = False
        while True:
            news = self.desk.news.get()
            if isinstance(news, AgentEvent):
                ending = self._take(news) or ending
                if found is not None:
                    self._retell(news, found)
            elif isinstance(news, Event):
                self._watch(news)
            elif isinstance(news, Interrupted):
                if pressed or news.leaves:
                    self.view.end()
                    raise KeyboardInterrupt
                pressed = True
                self._tell_pressed(found)
            elif isinstance(news, Over):
                self.view.end()
                if news.error is not None:
                    raise news.error
                return "interrupted" if pressed else ending
            if pressed and not stopped:  # tried again: it may have been pressed before there was a turn
                stopped = self._stop(found)

    def _take(self, event: AgentEvent) -> Ending | None:
        if self.terminal.json:
            self.terminal.print_json_line(event)
        else:
            self.view.take(event)
        if event.type == "message" and event.data["role"] == "user":
            self.heard = event.data["text"]
        if event.type == "final":
            return "finished" if event.data["stopped"] == "finished" else "stopped"
        return "failed" if event.type == "error" else None

    def _retell(self, event: AgentEvent, found: Found) -> None:
        """What only who comes later has to be told: what was said, and what waits since."""
        if event.type == "message" and event.data["role"] == "user":
            self._remark(f"> {short(event.data['text'], 300)}", "bold")
        elif event.type == "tool_started" and event.data["call_id"] in found.view.waiting_for:
            self._approval(event.data["call_id"])

    def _watch(self, event: Event) -> None:
        self.view.watch(event)
        if event.type == "approval_requested":
            self._approval(event.call_id)

    def _tell_pressed(self, found: Found | None) -> None:
        if found is not None and found.elsewhere:
            self._remark("it goes on without us; /stop ends it")
        else:
            self._remark("stopping; Ctrl-C again leaves", "yellow")

    def _stop(self, found: Found | None) -> bool:
        """End the turn, if it is ours; one of another process is only left."""
        if found is not None and found.elsewhere:
            self.desk.leave()
            return True
        return self.desk.stop(self.thread)

    def _remark(self, text: str, style: str = "bright_black") -> None:
        if not self.terminal.json:
            self.view.remark(text, style)

    # A person's word.

    def _approval(self, call_id: str) -> None:
        record = self.desk.record(call_id, self.thread)
        if record is None or record.waiting_for != "approval" or call_id in self._asked or self.terminal.json:
            return
        self._asked.add(call_id)
        self.view.board.hide()
        why = (record.approval or {}).get("why")
        line = (
            Text("  ? ", "bold yellow")
            .append(clean(record.tool), "bold")
            .append(f" {short(record.arguments, 300)}", "not bold")
        )
        self.view.remark(line.append(f"  {short(why, 200)}" if why else "", "bright_black"), "")
        if not can_ask():
            self.view.remark(
                f"    it waits for a person: clicket approve {clean(call_id)} --thread {clean(quote(self.thread))}, or deny",
                "yellow",
            )
            return
        try:
            with told_to_leave():
                self._decide(call_id, asked_in(record))
        except EOFError:
            self.desk.news.put(Interrupted())
        except KeyboardInterrupt as pressed:
            self.desk.news.put(Interrupted(leaves=type(pressed) is not KeyboardInterrupt))

    def _decide(self, call_id: str, seen: str) -> None:
        answer = ""
        while answer not in ("y", "yes", "n", "no"):
            answer = ask(self.terminal, "    let it run? [y/n] ").strip().lower()
        if answer.startswith("y"):
            done = self.desk.decide(call_id, self.thread, approved=True, by=who(None), seen=seen)
        else:
            reason = ask(self.terminal, "    why not? The model is told: ").strip()
            done = self.desk.decide(call_id, self.thread, approved=False, by=who(None), reason=reason, seen=seen)
        if not done:
            self.view.remark("    somebody else decided meanwhile, or the call is over")
