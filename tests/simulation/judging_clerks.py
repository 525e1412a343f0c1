"""Guarantees of agents that middleware and checks surround, whose models are a chain, and to which messages are sent while they run."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from urllib.parse import quote

from tests.simulation.clerks import ADDED, BEGINS, OTHER, Sent
from tests.simulation.cluster import Cluster
from tests.simulation.money import PRICES
from tests.simulation.world import EPOCH

from clicket.model import Record

__all__ = ["CLERKS"]

Wrong = Iterator[str]


def _turns(records: list[Record]) -> Iterator[tuple[Record, dict[str, Any], list[dict[str, Any]]]]:
    """Each turn of the clerk, its arguments and its entries."""
    for record in records:
        if record.tool == "agent:clerk" and isinstance(record.arguments, dict):
            yield record, record.arguments, [event.data["entry"] for event in record.events if event.data.get("entry")]


def each_message_is_in_one_turn(cluster: Cluster, records: list[Record]) -> Wrong:
    """A message that was acknowledged is in one turn, which it begins or which hears it, unless it was taken back: then in none."""
    for message, turns in ((message, cluster.clerks.turns()[message.id]) for message in cluster.clerks.sent):
        if len(turns) > 1 or any(thread != message.thread for thread, _, _ in turns):
            yield f"{message.id} of {message.thread} is in the turns {turns}"
        if turns and message.taken_back is not None:
            yield f"{message.id} was taken back, acknowledged, and is in the turn {turns}"


def messages_begin_turns_in_order(cluster: Cluster, records: list[Record]) -> Wrong:
    """Of two messages that are to come next the one that was acknowledged before the other was sent begins its turn before it."""
    if any(node.skewed for node in cluster.world.nodes):
        return
    turns = cluster.clerks.turns()
    waiting = [message for message in cluster.clerks.sent if message.when in ("next", "now")]

    def number(message: Sent) -> int | None:
        return next((number for _, how, number in turns[message.id] if how == "begun"), None)

    for one, other in combinations(waiting, 2):
        for first, second in ((one, other), (other, one)):
            if first.thread != second.thread or first.held_at is None or first.held_at >= second.began_at:
                continue
            before, after = number(first), number(second)
            if before is not None and after is not None and before > after:
                yield f"{first.id} was sent before {second.id}, and began turn {before} of {first.thread}, after {after}"


def messages_wait_while_their_queue_is_held(cluster: Cluster, records: list[Record]) -> Wrong:
    """After a stop is acknowledged no message of the thread's queue begins a turn until another one is sent."""
    if cluster.is_slow or any(node.was_away or node.skewed for node in cluster.world.nodes):
        return
    queued = {message.id for message in cluster.clerks.sent if message.when != "run"}
    for record, given, _ in _turns(records):
        at = record.created_at - EPOCH
        for stop in cluster.clerks.stops if given.get("id") in queued else ():
            if stop.thread != given["thread"] or stop.ended_at is None or stop.ended_at > at - 1.0:
                continue
            sends = (send for send in cluster.clerks.sends if send.thread == stop.thread and send.began_at <= at)
            if all(send.ended_at is not None and send.ended_at < stop.began_at for send in sends):
                yield f"{given['id']} began turn {given['turn']} of {stop.thread} {at - stop.ended_at:.1f} s after a stop held its queue"


def only_the_turn_that_ran_is_interrupted(cluster: Cluster, records: list[Record]) -> Wrong:
    """A turn that is cancelled was stopped by a person, or ran when a message was sent that interrupts."""
    if any(node.skewed for node in cluster.world.nodes):
        return
    for record, given, entries in _turns(records):
        began = record.created_at - EPOCH
        stops = [stop.ended_at for stop in cluster.clerks.stops if stop.thread == given["thread"]]
        stops += [
            each.held_at
            for each in cluster.clerks.sent
            if each.thread == given["thread"] and each.when == "interrupt" and each.began_at < float("inf")
        ]
        is_cancelled = any(entry["e"] == "ended" and entry["stopped"] == "cancelled" for entry in entries)
        if is_cancelled and all(at is not None and at < began for at in stops):
            yield f"turn {given['turn']} of {given['thread']} was cancelled, and nobody has stopped it"


def what_a_turn_has_read_stays(cluster: Cluster, records: list[Record]) -> Wrong:
    """A request of a turn has each message of people and of middleware that an earlier one had, whichever process makes it."""
    if cluster.is_slow or cluster.may_forget:
        return
    well = {str(node) for node in cluster.world.nodes if not node.was_away}
    read: defaultdict[str, set[str]] = defaultdict(set)
    for request in cluster.scene.requests:
        if request.text.startswith(BEGINS) and request.node in well:
            users = {text for text in request.users if text.startswith((BEGINS, ADDED))}
            for text in sorted(read[request.text] - users):
                yield f"a request for {request.text!r} lacks {text!r}, which an earlier one had (at {request.at:.3f} s)"
            read[request.text] |= users


def a_decision_is_made_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """What middleware or a check decided, and is on record, is not decided again, nor recorded twice. A question is followed by its answer,
    and another answer of the model is checked anew."""
    yield from cluster.scene.decided_again
    for record, given, entries in _turns(records):
        made = Counter(
            (entry["step"], entry["on"], entry["by"], entry.get("use", ""))
            for entry in entries
            if entry["e"] == "decision" and not entry.get("call") and entry["on"] != "output"
        )
        for place, count in made.items():
            if count > 1:
                yield f"{record.id} of {given['thread']} has the decision {place} {count} times"


def decisions_hold(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call that was refused does not run, and one whose arguments were changed runs with those."""
    decided = {
        entry["use"]: []
        for _, _, entries in _turns(records)
        for entry in entries
        if entry["e"] == "decision" and entry.get("use")
    }  # type: dict[str, list[dict[str, Any]]]
    for _, _, entries in _turns(records):
        for entry in entries:
            if entry["e"] == "decision" and entry.get("use") and entry["on"] in ("before_tool", "tool_call"):
                decided[entry["use"]].append(entry["value"])
    for body in cluster.scene.bodies:
        for verdict in decided.get(body.id.partition(":")[0], ()):
            if verdict["do"] == "refuse":
                yield f"{body.id} ran, and was refused: {verdict['text']}"
            elif verdict["do"] == "change" and body.before != verdict["value"]["before"]:
                yield f"{body.id} ran with other arguments than {verdict['value']}"


def a_message_is_read_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """No request to a model has a message of a person, or one that middleware added, twice."""
    for request in cluster.scene.requests:
        for text, count in Counter(request.users).items():
            if count > 1 and text.startswith((BEGINS, ADDED)):
                yield f"a request for {request.text!r} has {text!r} {count} times"


def tries_are_in_the_ledger_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """Of a turn that has finished the ledger has what each recorded reply cost, also of one that was not used. Where no process was away it
    has nothing else that is known."""
    if cluster.books is None:
        return
    rows = {row.key: row.own for row in cluster.books.rows["run"]}
    for record, given, entries in _turns(records):
        price = PRICES[0]
        usages = [entry["usage"] for entry in entries if entry["e"] in ("reply", "tried") and entry.get("usage")]
        cost = (
            sum(
                each.get("input_tokens", 0) * price["input"] + each.get("output_tokens", 0) * price["output"]
                for each in usages
            )
            / 1e6
        )
        row = rows.get(f"{given['thread']}/clerk.{given['turn']}")
        if row is None or not any(entry["e"] == "ended" and entry["stopped"] == "finished" for entry in entries):
            continue
        known = row.usd - row.assumed_usd
        if known < cost - 1e-9 or (
            known > cost + 1e-9 and not cluster.faults and not cluster.network.was_bad and not cluster.is_slow
        ):
            yield f"the replies of {record.id} in {given['thread']} cost {cost} USD, and the ledger has {known}"


def a_turn_stays_with_whom_it_was_handed_to(cluster: Cluster, records: list[Record]) -> Wrong:
    """Once a handoff is on record, the first agent's model is asked for that turn no more, whichever process goes on. It is on record
    once."""
    for record, given, entries in _turns(records):
        for use, count in Counter(entry.get("use") for entry in entries if entry["e"] == "handoff").items():
            if use and count > 1:
                yield f"{record.id} of {given['thread']} has the handoff of {use} {count} times"
    if cluster.is_slow or cluster.may_forget or any(node.skewed for node in cluster.world.nodes):
        return
    well = {str(node) for node in cluster.world.nodes if not node.was_away}
    for record, given, entries in _turns(records):
        handed = [entry["at"] - EPOCH for entry in entries if entry["e"] == "handoff" and entry.get("use")]
        ended = float("inf") if record.ended_at is None else record.ended_at - EPOCH
        for request in cluster.scene.requests if handed else ():
            if (
                request.node in well
                and given["message"] in request.users
                and handed[0] < request.at < ended
                and request.model != OTHER
            ):
                yield f"{request.model} was asked for {request.text!r} {request.at - handed[0]:.3f} s after it was handed over"


def what_is_remembered_is_there_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """A fact that a model remembered, and that nobody has forgotten, is in the memory once."""
    facts = Counter(
        (key.partition("/")[0], fact["text"])
        for key, body, _ in cluster.place.documents("agent.memory")
        for fact in json.loads(body)
    )
    for (caller, text), count in facts.items():
        if count > 1:
            yield f"{text!r} of {caller!r} is remembered {count} times"
    for record in records if not cluster.may_forget else ():
        if record.tool == "remember" and record.state.value == "completed" and isinstance(record.arguments, dict):
            text = record.arguments["fact"]
            if not facts[quote(record.caller, safe=""), text]:
                yield f"{record.id} has remembered {text!r} for {record.caller!r}, and it is not in the memory"


def an_answer_has_its_type(cluster: Cluster, records: list[Record]) -> Wrong:
    """A turn that has finished has an answer of the type that was asked for, which is on record once."""
    for record, given, entries in _turns(records):
        for entry in entries:
            if (
                entry["e"] == "ended"
                and entry["stopped"] == "finished"
                and set(entry.get("value") or ()) != {"done", "steps"}
            ):
                yield f"{record.id} of {given['thread']} finished with {entry.get('value')!r}"


CLERKS = (
    each_message_is_in_one_turn, messages_begin_turns_in_order, a_decision_is_made_once, decisions_hold, a_message_is_read_once,
    tries_are_in_the_ledger_once, an_answer_has_its_type, messages_wait_while_their_queue_is_held, only_the_turn_that_ran_is_interrupted,
    what_a_turn_has_read_stays, a_turn_stays_with_whom_it_was_handed_to, what_is_remembered_is_there_once,
)  # fmt: skip
