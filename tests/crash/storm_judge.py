"""What must hold after a storm, when all faults have ended and nothing runs any more: pure functions over what the store has, and what
processes, tools and models wrote down outside it.

`lost`: a turn that was accepted is missing, or did not end as finished. `repeated`: a message has two turns, or a body ran again that may
not. `unequal`: calls, ledger and accounts differ. `wrong`: all else.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import msgspec
from tests.crash import judge as calls_judge
from tests.crash.judge import Effect, Finding
from tests.crash.storm_scene import ASKED, COSTS, RULES, Ack, Asked, expected_text, script_of
from tests.scenarios.kit import assert_sound

from clicket import Record, State
from clicket.agents import AgentState, TurnDocument
from clicket.engine.spend.accounts import Account
from clicket.engine.spend.ledger import LedgerEntry, LedgerPage
from clicket.model.ids import alias_of
from clicket.model.spend import Run
from clicket.tools.costs import cost_in

__all__ = ["KINDS", "World", "judge"]

KINDS = ("lost", "repeated", "unequal", "wrong")
Amounts = Counter[str]
"""`nano` and `tokens`."""
_TURN = "agent:"
_UNKNOWN = "outcome_unknown"
_NEVER = 1_000_000


class World(msgspec.Struct, kw_only=True):
    """`turns`: the documents of each thread's turns, by agent and thread."""

    acks: list[Ack]
    effects: list[Effect]
    asked: list[Asked]
    records: list[Record]
    turns: dict[tuple[str, str], list[TurnDocument]]
    pages: list[LedgerPage]
    accounts: list[Account]

    @property
    def accepted(self) -> set[tuple[str, str]]:
        """Thread and id of each message that was accepted."""
        return {(ack.thread, ack.id) for ack in self.acks if ack.did != "trouble"}


def judge(world: World) -> list[Finding]:
    """Every violation, in one line each."""
    plain = [record for record in world.records if record.tool in RULES]
    found = list(calls_judge.judge(plain, world.effects, (), RULES, max_claims=_NEVER).findings)
    for check in (_messages, _turns, _transcripts, _sub_agents, _costs, _replies, _accounts):
        found += check(world)
    return found


def _finding(kind: str, where: str, text: str) -> Finding:
    return Finding(kind=kind, id=where, text=text)


def _messages(world: World) -> Iterator[Finding]:
    """Each accepted message has one turn, which is the one that its sender was told of."""
    for ack in world.acks:
        if ack.did == "trouble":
            yield _finding("wrong", ack.id, ack.text)
    for thread, id in world.accepted:
        if not any(document.id == id for document in world.turns.get(("boss", thread), ())):
            yield _finding("lost", id, f"it was accepted in thread {thread}, which has no turn of it")
    for (agent, thread), documents in world.turns.items():
        for id, times in Counter(document.id for document in documents if agent == "boss").items():
            if times > 1:
                yield _finding("repeated", id, f"thread {thread} has {times} turns of it")
    for ack in world.acks:
        for document in world.turns.get(("boss", ack.thread), ()) if ack.did != "trouble" else ():
            if document.id == ack.id and document.turn != ack.turn:
                yield _finding("wrong", ack.id, f"its sender was told turn {ack.turn}, and it is turn {document.turn}")
            elif document.id == ack.id and ack.did == "result" and document.text != ack.text:
                yield _finding(
                    "wrong", ack.id, f"its sender was told {ack.text!r}, and the store has {document.text!r}"
                )


def _turns(world: World) -> Iterator[Finding]:
    """Each turn has ended once and is finished, and so has its call."""
    calls: defaultdict[tuple[str, str], list[Record]] = defaultdict(list)
    for record in world.records:
        if record.tool not in RULES:
            try:
                assert_sound(record)
            except AssertionError as error:
                yield _finding("wrong", f"{record.thread} {record.id}", f"its events are not sound: {error}")
            if record.state is not State.COMPLETED:
                code = "" if record.error is None else record.error.code
                yield _finding("lost", f"{record.thread} {record.id}", f"{record.tool} is {record.state} {code}")
        if record.tool.startswith(_TURN):
            agent = record.tool.removeprefix(_TURN)
            calls[agent, record.thread.removeprefix(f"{_TURN}{agent}/")].append(record)
    for place in {*calls, *world.turns}:
        numbers = sorted(document.turn for document in world.turns.get(place, ()))
        made = sorted(int(record.id.removeprefix("turn-")) for record in calls[place])
        if numbers != made or numbers != list(range(1, len(numbers) + 1)):
            yield _finding("wrong", f"{place}", f"its turns are {numbers}, and the calls of its turns are {made}")
    for (agent, thread), documents in world.turns.items():
        for document in documents:
            if (document.state, document.stopped, document.error) != (AgentState.FINISHED, "finished", ""):
                text = f"turn {document.turn} is {document.state}, {document.stopped}: {document.error}"
                yield _finding("lost", f"{agent} in {thread}", text)


def _transcripts(world: World) -> Iterator[Finding]:
    """Each turn has followed its script: each call has one result, and only that of a tool which may not be repeated is unknown."""
    for (agent, thread), documents in world.turns.items():
        for document in documents:
            message, *rest = document.messages
            script, place, where = script_of(message.content), 0, f"{agent} in {thread}, turn {document.turn}"
            if agent == "boss" and message.content != document.id:
                yield _finding("wrong", where, f"it has the message of {document.id}: {message.content}")
            shape = [len(step) for step in script for _ in (0, *step)]
            if len(rest) != len(shape) + 1 or document.steps != len(script) + 1:
                yield _finding("wrong", where, f"it has {len(rest)} messages and {document.steps} steps")
                continue
            for step in script:
                uses, place = rest[place].uses, place + 1
                for use, (tool, number) in zip(uses, step, strict=True):
                    answer, place = rest[place], place + 1
                    whole = expected_text(message.content, number, tool)
                    unknown = tool == "pay" and answer.failed and answer.content.startswith(_UNKNOWN)
                    if answer.use_id != use.id or (answer.content != whole and not unknown):
                        yield _finding("wrong", where, f"{tool} {number} has the result {answer.content!r:.200}")
            if not document.text == rest[-1].content == f"{message.content} is done.":
                yield _finding("wrong", where, f"its answer is {document.text!r:.200}")


def _sub_agents(world: World) -> Iterator[Finding]:
    """Each call of the other agent has one turn there, and its answer; there are no other turns."""
    expected = set()
    for record in world.records:
        if record.tool == "helper":
            thread = f"{record.thread}/{alias_of(record.id)}"
            expected.add(("helper", thread))
            answers = [document.text for document in world.turns.get(("helper", thread), ())]
            if answers != [record.output]:
                yield _finding(
                    "lost", thread, f"the call got {record.output!r}, and the turns of its agent are {answers}"
                )
    for place in {place for place in world.turns if place[0] == "helper"} - expected:
        yield _finding("wrong", f"{place}", "no call of an agent has asked for its turn")


def _costs(world: World) -> Iterator[Finding]:
    """The ledger has the costs that calls have on record, however they ended, and a call that has completed has the cost of its tool."""
    counted: dict[str, tuple[int, int]] = {}
    for page in world.pages:
        for id, entry in page.entries.items():
            if entry.kind == "tool":
                if id in counted:
                    yield _finding("unequal", id, "it is in two pages of the ledger")
                counted[id] = (entry.nano or 0, entry.tokens)
    for record in world.records:
        cost = cost_in(record.events)
        known = None if cost is None else (cost.nano, cost.tokens)
        found = counted.pop(f"call:{record.id}", None)
        if known != found:
            yield _finding(
                "unequal", record.id, f"it is {record.state} and has cost {known}, and the ledger has {found}"
            )
        if record.state is State.COMPLETED and known != COSTS.get(record.tool):
            yield _finding(
                "unequal", record.id, f"it has cost {known}, and {record.tool} costs {COSTS.get(record.tool)}"
            )
    for id, amount in counted.items():
        yield _finding("unequal", id, f"the ledger has {amount}, and there is no such call")


def _replies(world: World) -> Iterator[Finding]:
    """The ledger has each reply that a turn has on record, and each request that was made for it: a process that dies, or loses the turn,
    after the model has replied has paid for a reply that is not on record."""
    asked = Counter(each.message for each in world.asked)
    entries: defaultdict[Run, list[LedgerEntry]] = defaultdict(list)
    for page in world.pages:
        entries[page.runs[-1]] += [entry for entry in page.entries.values() if entry.kind == "model"]
    for (agent, thread), documents in world.turns.items():
        for document in documents:
            counted, requests = entries.pop(Run(thread, agent, document.turn), []), asked[document.messages[0].content]
            known = [entry for entry in counted if not entry.assumed]
            if not document.steps <= len(known) <= requests <= len(counted):
                text = (
                    f"turn {document.turn} has {document.steps} replies of {requests} requests; the ledger has {len(known)} replies and "
                    f"{len(counted) - len(known)} that are assumed"
                )
                yield _finding("unequal", f"{agent} in {thread}", text)
            if any(entry.all_tokens != ASKED.total for entry in known):
                yield _finding("unequal", f"{agent} in {thread}", f"turn {document.turn} has a reply of another amount")
            if document.usage.total != ASKED.total * document.steps:
                yield _finding("unequal", f"{agent} in {thread}", f"turn {document.turn} says {document.usage}")
    for run in entries:
        if entries[run]:
            yield _finding(
                "unequal", run.name, f"the ledger has {len(entries[run])} requests of a turn that does not exist"
            )


def _accounts(world: World) -> Iterator[Finding]:
    """Each account has what the ledger has of its scope, and no reservation is open."""
    expected: defaultdict[str, Amounts] = defaultdict(Counter)
    for page in world.pages:
        scopes = {"all", f"thread:{page.runs[0].thread}", *(f"agent:{run.agent}" for run in page.runs)}
        for entry in page.entries.values():
            for scope in scopes:
                expected[scope].update(nano=entry.nano or 0, tokens=entry.all_tokens)
    found: dict[str, Amounts] = {}
    for account in world.accounts:
        if account.holds:
            yield _finding("unequal", account.scope, f"{len(account.holds)} reservations are open")
        found[account.scope] = Counter(nano=account.nano, tokens=account.tokens)
    for scope in sorted({*expected, *found}):
        if dict(expected[scope]) != dict(found.get(scope, {})):
            text = f"the account has {dict(found.get(scope, {}))}, and the ledger {dict(expected[scope])}"
            yield _finding("unequal", scope, text)


def count(findings: Sequence[Finding], kind: str) -> int:
    """Things with such a finding: one that has two counts once."""
    return len({finding.id for finding in findings if finding.kind == kind})
