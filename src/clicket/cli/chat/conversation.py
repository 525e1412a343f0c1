"""The turns of one thread at the terminal: shows each turn and asks for approvals. Ctrl-C stops the turn, not the program."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, Literal

from rich.text import Text

from clicket.agents import AgentEvent, UserMessage
from clicket.cli.chat.agent_runner import ActiveTurn, AgentRunner, Interrupt, TurnEnded
from clicket.cli.chat.keyboard import can_ask, read_line, signals_as_updates, term_raises
from clicket.cli.chat.turn_view import TurnView
from clicket.cli.commands.approve import approval_hash, user_name
from clicket.cli.formatting import short
from clicket.cli.terminal import Terminal, clean
from clicket.errors import AgentBusy
from clicket.model import Event, Record
from clicket.model.files import File
from clicket.tools.question import question_of

__all__ = ["Conversation", "Ending"]

Ending = Literal["finished", "stopped", "failed", "interrupted"]
_ASKING = ("tool_started", "decision")
"""Events that may name a call which waits for an approval."""


class Conversation:
    """`message` is what the person said in the turn that was shown last."""

    def __init__(self, runner: AgentRunner, terminal: Terminal, thread: str) -> None:
        self.runner = runner
        self._run = runner.run
        self.terminal = terminal
        self.thread = thread
        self.view = TurnView(terminal, self._record)
        self.message = ""
        self._asked: set[str] = set()

    def _record(self, call_id: str) -> Record | None:
        return self._run(self.runner.record(call_id, self.thread))

    def resume(self, *, watch: bool) -> Ending | None:
        """Show the active turn to its end. None: there is none, or it runs in another process and `watch` is off."""
        turn = self._run(self.runner.take_up(self.thread))
        if turn is None or (turn.elsewhere and not watch):
            return None
        if turn.elsewhere:
            what = "runs in another process; you watch it. Ctrl-C stops watching, /stop ends the turn."
        else:
            what = "was cut off before it ended. It goes on now; what is on record is not done again."
        self._remark(f"Turn {turn.number} of thread {clean(self.thread)} {what}", "yellow")
        return self._show(self.runner.follow(turn), turn)

    def attached(self, message: str, paths: Sequence[str]) -> UserMessage:
        """The message with these files, stored."""
        files = [File(Path(path).expanduser()) for path in paths]
        return self._run(self.runner.keep_files([message, *files] if message else files))

    def turn(self, message: str | UserMessage, id: str | None = None) -> Ending:
        """Send a message, and show its turn to the end. `id`: if the thread has a turn with it, that one is shown."""
        try:
            return self._show(self.runner.send(message, self.thread, id))
        except AgentBusy as busy:
            waits = busy.details.get("waiting_for")
            where = f"that waits for {waits}" if waits else "in another process"
            raise AgentBusy(
                f"thread {self.thread!r} has a turn under way {where}, and a thread has one at a time. Watch it with "
                f"`clicket chat --thread {quote(self.thread)}` (/stop there ends it), or use another thread."
            ) from None

    def _show(self, begin: Coroutine[Any, Any, None], resumed: ActiveTurn | None = None) -> Ending:
        ending: Ending = "failed"
        interrupted = stopped = False
        elsewhere = resumed is not None and resumed.elsewhere
        updates = self.runner.updates
        while not updates.empty():  # late updates of the turn before
            updates.get()
        with signals_as_updates(updates):  # before the turn begins, so that no Ctrl-C is lost
            self._run(begin)
            while True:
                update = updates.get()
                if isinstance(update, AgentEvent):
                    ending = self._show_event(update, resumed) or ending
                elif isinstance(update, Event):
                    self.view.live.take(update)
                    if update.type == "approval_requested":
                        self._ask_approval(update.call_id)
                elif isinstance(update, TurnEnded):
                    self.view.end()
                    if update.error is not None:
                        raise update.error
                    return "interrupted" if interrupted else ending
                elif interrupted or update.leaves:
                    self.view.end()
                    raise KeyboardInterrupt
                else:
                    interrupted = True
                    if elsewhere:
                        self._remark("the turn goes on in its process; /stop ends it")
                    else:
                        self._remark("stopping; Ctrl-C again leaves", "yellow")
                if interrupted and not stopped:  # retried after each update: Ctrl-C may come before the turn has begun
                    if elsewhere:
                        self._run(self.runner.unfollow())
                    stopped = elsewhere or self._run(self.runner.agent.stop(self.thread, "stopped at the terminal"))

    def _show_event(self, event: AgentEvent, resumed: ActiveTurn | None) -> Ending | None:
        if self.terminal.json:
            self.terminal.print_json_line(event)
        else:
            self.view.take(event)
        data = event.data
        if event.type == "message" and data["role"] == "user":
            self.message = data["text"]
            if resumed is not None:
                self._remark(f"> {short(data['text'], 300)}", "bold")
        elif resumed is not None and data.get("call_id") in resumed.view.waiting_for and event.type in _ASKING:
            self._ask_approval(data["call_id"])
        if event.type == "final":
            return "finished" if data["stopped"] == "finished" else "stopped"
        return "failed" if event.type == "error" else None

    def _remark(self, text: Text | str, style: str = "bright_black") -> None:
        if not self.terminal.json:
            self.view.remark(text, style)

    # Approvals.

    def _ask_approval(self, call_id: str) -> None:
        record = self._record(call_id)
        if record is None or record.waiting_for != "approval" or call_id in self._asked or self.terminal.json:
            return
        self._asked.add(call_id)
        self.view.live.hide()
        line = Text("  ? ", "bold yellow").append(clean(record.tool), "bold")
        line.append(f" {short(record.arguments, 300)}", "not bold")
        why = (record.approval or {}).get("why")
        self._remark(line.append(f"  {short(why, 200)}" if why else "", "bright_black"), "")
        question = question_of(record.approval)
        if question is not None and question.schema is not None:
            fields = " ".join(sorted(question.schema.get("properties", ())))
            command = f"clicket respond {clean(call_id)} JSON --thread {clean(quote(self.thread))}"
            self._remark(f"    it waits for an answer ({short(fields, 200)}): {command}, or deny", "yellow")
            return
        if not can_ask():
            command = f"clicket approve {clean(call_id)} --thread {clean(quote(self.thread))}"
            self._remark(f"    it waits for a person: {command}, or deny", "yellow")
            return
        try:
            with term_raises():
                decided = self._read_decision(record)
        except EOFError:
            self.runner.updates.put(Interrupt())
        except KeyboardInterrupt as interrupt:
            self.runner.updates.put(Interrupt(leaves=type(interrupt) is not KeyboardInterrupt))
        else:
            if not decided:
                self._remark("    the call was decided elsewhere meanwhile, or has ended")

    def _read_decision(self, record: Record) -> bool:
        answer = ""
        while answer not in ("y", "yes", "n", "no"):
            answer = read_line(self.terminal, "    let it run? [y/n] ").strip().lower()
        approved = answer.startswith("y")
        reason = "" if approved else read_line(self.terminal, "    why not? The model is told: ").strip()
        decision = {"by": user_name(None), "reason": reason, "seen": approval_hash(record)}
        return self._run(self.runner.decide(record, approved=approved, **decision))
