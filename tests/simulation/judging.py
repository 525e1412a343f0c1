"""Judges a seed by what the outside saw and what the store says at the end. Each guarantee is a predicate with a name."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.crash.judge import ended, judge, sound
from tests.simulation.clients import EDITED
from tests.simulation.cluster import AT_ONCE, LEASE, Cluster
from tests.simulation.judging_clerks import CLERKS
from tests.simulation.judging_features import FEATURES
from tests.simulation.scene import RULES, TIMEOUTS, Body
from tests.simulation.world import EPOCH

from clicket.errors import InvalidTransition
from clicket.kernel import State
from clicket.model import Record, fold
from clicket.model.spend import BudgetStatus

__all__ = ["check"]

_SLACK = 1e-6


def check(cluster: Cluster) -> None:
    """Everything that must hold, also in a seed that did not come to rest."""
    world, scene = cluster.world, cluster.scene
    if cluster.features.sweeps:
        cluster.archive.look()
    records = list(_folded(cluster))
    records += [record for record, _ in cluster.archive.removed()]
    plain = [record for record in records if record.tool in RULES]
    stored = {record.id for record in plain}
    others = {record.id for record in records} - stored
    acknowledged = {ack.id for ack in scene.acks if ack.took or ack.did not in ("saw", "decide", "cancel")}
    acks = [
        ack for ack in scene.acks if (ack.id in stored or ack.id in acknowledged) and ack.id not in others
    ]  # a reader, or a person, may see a call that is then refused
    effects = [effect for effect in scene.effects if effect.tool in RULES]
    for finding in judge(plain, effects, acks, RULES, max_claims=3).findings:
        world.wrong(finding.kind, f"call {finding.id}: {finding.text}")
    for record in records:
        if record.tool not in RULES:
            # A turn that was stopped, and took longer than the grace, records its end after that of its call.
            stopped = record.tool.startswith("agent:") and record.state is State.CANCELLED
            for kind, text in (*sound(record), *ended(record, also=("note",) if stopped else ())):
                world.wrong(kind, f"call {record.id} of {record.tool}: {text}")
    for predicate in PREDICATES:
        for text in predicate(cluster, records):
            world.wrong(predicate.__name__.replace("_", " "), text)


Wrong = Iterator[str]


def _folded(cluster: Cluster) -> Iterator[Record]:
    """The calls that are stored, without those whose events are not what the table allows."""
    for call in cluster.place.calls():
        try:
            yield fold(call.events())
        except InvalidTransition as error:
            cluster.world.wrong("only legal transitions", f"call {call.id}: {error}")


def slots_return(cluster: Cluster, records: list[Record]) -> Wrong:
    if all(member.node.is_alive for member in cluster.members):
        for name, held in cluster.place.slots().items():
            yield f"{name}: {held} held"


def one_body_at_a_time(cluster: Cluster, records: list[Record]) -> Wrong:
    """Of one call in one process: a second attempt begins after the first body has ended."""
    by_call: defaultdict[tuple[str, object], list[Body]] = defaultdict(list)
    for body in cluster.scene.bodies:
        by_call[body.id, body.node].append(body)
    for (id, node), bodies in by_call.items():
        for before, after in pairwise(bodies):
            if before.ended is None or before.ended > after.began + _SLACK:
                yield f"{id} in {node}: attempt {after.attempt} began while {before.attempt} ran"


def an_outside_result_is_the_outcome(cluster: Cluster, records: list[Record]) -> Wrong:
    for record in records:
        output = cluster.scene.completed.get(record.id)
        if output is not None and record.output != output:
            yield f"{record.id} was completed from outside, acknowledged, and it is {record.state} with {record.output!r}"


def an_outside_result_ends_its_call(cluster: Cluster, records: list[Record]) -> Wrong:
    """Where nothing fails and no worker drains: soon after it is acknowledged, or after the body has returned."""
    if cluster.faults or cluster.is_slow or cluster.network.was_bad or cluster.scene.steered:
        return
    for record in records:
        at = cluster.scene.completed_at.get(record.id)
        if at is not None and record.ended_at is not None:
            over = max(at, *(body.ended or 0.0 for body in cluster.scene.bodies if body.id == record.id))
            if record.ended_at - EPOCH > over + 3.0:
                yield f"{record.id} ended {record.ended_at - EPOCH - over:.1f} s after its result was acknowledged"


def one_answer_to_a_question(cluster: Cluster, records: list[Record]) -> Wrong:
    for record in records:
        questions = answers = 0
        for event in record.events:
            questions += event.type == "approval_requested"
            answers += event.type == "approval_given"
            if answers > questions:
                yield f"{record.id}: answer {answers} to {questions} questions"
                break
        took = sum(1 for ack in cluster.scene.acks if ack.did == "decide" and ack.id == record.id and ack.took)
        if took > questions:
            yield f"{record.id}: {took} people were told that their decision counts, and it asked {questions} times"


def a_decision_in_time_counts(cluster: Cluster, records: list[Record]) -> Wrong:
    """A wait for a person that has its answer on record does not end because its time is over."""
    for record in records:
        last = next((event.type for event in reversed(record.events) if event.type.startswith("approval_")), None)
        if (
            last == "approval_given"
            and (record.metadata or {}).get("phase") == "approval"
            and record.state.value == "timeout"
        ):
            yield f"{record.id} has a decision on record, and ended because nobody had decided"


def a_denied_call_does_not_run(cluster: Cluster, records: list[Record]) -> Wrong:
    for record in records:
        denied = False
        for event in record.events:
            if event.type == "approval_given" and event.data.get("approved") is False:
                denied = True
            elif event.type == "approval_requested":
                denied = False
                if event.data.get("purpose") == "input":  # a question may be declined
                    break
            elif event.type == "attempt_started" and denied:
                yield f"{record.id} ran after it was denied"


def approved_arguments_are_used(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call that was approved with other arguments runs with those."""
    for record in records:
        edited = any(event.type == "approval_given" and "arguments" in event.data for event in record.events)
        for body in cluster.scene.bodies:
            if edited and body.id == record.id and body.before != EDITED:
                yield f"{record.id} was approved with other arguments, and ran with the first ones"


def a_cached_result_is_its_callers(cluster: Cluster, records: list[Record]) -> Wrong:
    callers = {record.id: record.caller for record in records}
    for record in records:
        if record.cached and isinstance(record.output, dict) and callers.get(record.output["id"]) != record.caller:
            yield f"{record.id} of {record.caller!r} got the result of a call of {callers.get(record.output['id'])!r}"


def equal_calls_do_not_wait_in_vain(cluster: Cluster, records: list[Record]) -> Wrong:
    """Where nothing fails, a call that waits for an equal one gets its result, or runs: it does not wait until its time is over."""
    if cluster.faults or cluster.is_slow or cluster.network.was_bad or cluster.features.operators:
        return
    for record in records:
        limited = record.not_before is not None or record.deadline is not None
        if record.tool == "look_up" and record.state is State.TIMEOUT and not record.attempts and not limited:
            yield f"{record.id} waited for an equal call until its time was over"


def equal_calls_run_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """While nothing fails and no process dies, calls with equal arguments share one run."""
    if cluster.faults or cluster.network.was_bad or cluster.is_slow:
        return
    runs = Counter(
        (record.caller, json.dumps(record.arguments, sort_keys=True))
        for record in records
        if record.tool == "look_up"
        and isinstance(record.arguments, dict)
        and record.state.value == "completed"
        and not record.cached
    )
    cancelled = any(record.tool == "look_up" and record.state.value != "completed" for record in records)
    for (caller, key), count in runs.items():
        if count > 1 and not cancelled:
            yield f"look_up {key} of {caller!r} ran {count} times"


def bodies_are_stopped_in_time(cluster: Cluster, records: list[Record]) -> Wrong:
    """While its process is not paused: a body runs no longer than its timeout and the grace, unless it ignores the stop."""
    if cluster.is_slow:
        return
    for body in cluster.scene.bodies:
        if body.node is not None and body.node.was_away:
            continue
        if body.tool in TIMEOUTS and body.ended is not None and body.ended - body.began > TIMEOUTS[body.tool] + 1.0:
            yield f"{body.id}: attempt {body.attempt} ran {body.ended - body.began:.1f} s, its tool has {TIMEOUTS[body.tool]} s"


def silent_bodies_are_stopped(cluster: Cluster, records: list[Record]) -> Wrong:
    """A stream that says nothing for its idle timeout of 1.5 s is stopped. What it says waits for a store that does not answer."""
    if cluster.is_slow or cluster.network.was_bad or cluster.faults["pause"] or cluster.faults["cut"]:
        return
    for body in cluster.scene.bodies:
        if body.tool == "stream" and body.ended is not None:
            given = cluster.clients.given.get(body.id)
            most = 0.0 if given is None else min(given[1]["before"], 1.5) + min(given[1]["after"], 1.5) + 1.5
            if given is not None and body.ended - body.began > most:
                yield f"{body.id} ran {body.ended - body.began:.1f} s, and should have been stopped after {most:.1f} s"


def a_cancel_stops_work(cluster: Cluster, records: list[Record]) -> Wrong:
    """After a cancel is acknowledged the call ends soon, and no attempt begins after the cancel is on record. A call that waits while every
    worker is cordoned has no owner that could end it."""
    for record in records:
        asked = next((event.seq for event in record.events if event.type == "cancel_requested"), None)
        ran = {body.attempt for body in cluster.scene.bodies if body.id == record.id}
        for event in record.events:
            if (
                asked is not None
                and event.seq > asked
                and event.type == "attempt_started"
                and event.data["attempt"] in ran
            ):
                yield f"{record.id}: attempt {event.data['attempt']} ran after its cancel was on record"
        at = cluster.scene.cancelled.get(record.id)
        troubled = cluster.faults or cluster.is_slow or cluster.network.was_bad or cluster.features.operators
        if at is not None and not troubled and record.ended_at is not None and record.ended_at > EPOCH + at + 2.0:
            yield f"{record.id} ended {record.ended_at - EPOCH - at:.1f} s after its cancel was acknowledged"


def questions_end_in_time(cluster: Cluster, records: list[Record]) -> Wrong:
    """A wait for a person ends by its timeout, also if processes die: at most a lease later."""
    slack = 3 * LEASE + 5 + cluster.nobody_for
    for record in records:
        asked = next((event for event in record.events if event.type == "approval_requested"), None)
        if asked is None or not isinstance(timeout := asked.data.get("timeout"), int | float):
            continue
        after = next((event.at for event in record.events if event.seq > asked.seq), None)
        if (
            after is not None
            and after - asked.at > timeout + slack
            and not any(node.skewed for node in cluster.world.nodes)
        ):
            yield f"{record.id} waited {after - asked.at:.1f} s for a person, and its limit is {timeout} s"


def deadlines_hold(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call ends by its deadline, plus the grace, or soon after the faults are over; and no body goes on after it in a process that was
    never away. A call that waits while every worker is cordoned has no owner that could end it, nor one whose deadline passes when all
    processes have left: the next ones end it."""
    if cluster.is_slow or any(node.skewed for node in cluster.world.nodes):
        return
    for record in records:
        given = cluster.clients.given.get(record.id)
        if given is None or record.ended_at is None or "deadline" not in given[2]:
            continue
        ends = max(record.created_at, given[2].get("not_before", 0.0)) + given[2]["deadline"]
        most = max(ends, EPOCH + cluster.storm_ended + 4 * LEASE) if cluster.faults else ends
        left, back = cluster.away
        most = max(most, EPOCH + back) if ends + 2.0 > EPOCH + left else most
        if record.ended_at > most + 2.0 and not cluster.features.operators:
            yield f"{record.id} ended {record.ended_at - ends:.1f} s after its deadline"
        for body in cluster.scene.bodies:
            was_away = body.node is not None and body.node.was_away
            over = 0.0 if body.ended is None else EPOCH + body.ended - ends
            if body.id == record.id and body.tool in TIMEOUTS and over > 2.0 and not was_away:
                yield f"{body.id}: attempt {body.attempt} ran {over:.1f} s longer than the deadline of the call"


def no_takeover_without_a_death(cluster: Cluster, records: list[Record]) -> Wrong:
    if cluster.faults or cluster.is_slow or cluster.network.was_bad:
        return
    for record in records:
        if any(event.type == "note" and "claims" in event.data for event in record.events):
            yield f"{record.id} was taken over, and no process died"


def no_more_at_once_than_allowed(cluster: Cluster, records: list[Record]) -> Wrong:
    """Of a tool over all processes, as long as none that lives was taken for dead; and of all tools in one process. A process that leaves
    while a body ignores its stop returns its slot: it would end then, and the body with it."""
    staying = {member.node for member in cluster.members if not member.has_left}
    bodies = [
        body
        for body in cluster.scene.bodies
        if body.node is not None and body.node.is_alive and not body.node.was_away and body.node in staying
    ]
    tools: dict[str, int] = {} if cluster.is_slow or cluster.network.was_bad else _AT_ONCE_OF
    for body in bodies:
        running = [
            other
            for other in bodies
            if other.began <= body.began and (other.ended is None or other.ended > body.began + _SLACK)
        ]
        if sum(1 for other in running if other.tool == body.tool) > tools.get(body.tool, len(bodies)):
            yield f"{body.id} of {body.tool} began while {[other.id for other in running if other is not body]} ran"
        here = [other for other in running if other.node is body.node]
        if len(here) > AT_ONCE:
            yield f"{body.id} began in {body.node} while {[other.id for other in here if other is not body]} ran there"


def attempts_end_in_time(cluster: Cluster, records: list[Record]) -> Wrong:
    """In a process that lives and was never away, an attempt is over by its timeout and the grace, also if its body goes on. A process that
    closes leaves the check of an outcome to the next one: while no process is there, nobody asks it. A full disk stores no end."""
    if cluster.is_slow or any(node.skewed for node in cluster.world.nodes):
        return
    well = {node.name for node in cluster.world.nodes if node.is_alive and not node.was_away}
    slack = 8.0 if cluster.network.was_bad or cluster.disk_faults is not None else 2.0
    full = [] if cluster.disk_faults is None else cluster.disk_faults.full
    for record in records:
        if (timeout := {**TIMEOUTS, "stubborn": 2, "deaf": 1}.get(record.tool)) is None:
            continue
        for started in (event for event in record.events if event.type == "attempt_started"):
            if started.data.get("host") not in well:
                continue
            over = [event for event in record.events if event.seq > started.seq]
            end = next((event for event in over if event.is_terminal or event.state is State.RETRYING), None)
            asks = any(event.type == "reconcile_started" and (end is None or event.seq < end.seq) for event in over)
            most = started.at + timeout
            if any(EPOCH + since <= most + slack and EPOCH + until > most for since, until in full):
                most = max(EPOCH + until for _, until in full)
            if end is not None and end.at > most + slack + (cluster.nobody_for if asks else 0.0):
                yield f"{record.id} of {record.tool}: an attempt took {end.at - started.at:.1f} s, and has {timeout} s"


def waits_in_the_queue_end_in_time(cluster: Cluster, records: list[Record]) -> Wrong:
    """Where nothing fails, in one process: a call starts within the time that calls may wait in the queue, or ends. A process that gets a
    call from another one gives it its own time."""
    if (
        cluster.faults
        or cluster.is_slow
        or cluster.network.was_bad
        or cluster.features.operators
        or len(cluster.members) > 1
    ):
        return
    for record in records:
        if record.tool in _QUEUED and record.not_before is None and record.ended_at is not None:
            over = next((event.at for event in record.events if event.type == "attempt_started"), record.ended_at)
            if over > record.created_at + cluster.queue_timeout + 1.0:
                yield f"{record.id} of {record.tool} waited {over - record.created_at:.1f} s in the queue"


def a_full_queue_refuses_only_new_calls(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call that was stored had its place."""
    for record in records:
        if record.error is not None and record.error.code == "queue_full":
            yield f"{record.id} is stored, and ended as {record.error.message}"


def calls_start_when_there_is_room(cluster: Cluster, records: list[Record]) -> Wrong:
    """Where nothing fails: no call waits in the queue for long while a process is there, and less runs than the limits of its process and
    its tool allow."""
    if cluster.faults or cluster.is_slow or cluster.network.was_bad or cluster.features.operators:
        return
    bodies = [
        (body.began + EPOCH, body.ended + EPOCH, body.tool) for body in cluster.scene.bodies if body.ended is not None
    ]
    for record in records:
        asked = any(event.type == "approval_requested" for event in record.events)
        if record.tool not in _QUEUED or record.not_before is not None or record.ended_at is None or asked:
            continue
        starts = [event.at for event in record.events if event.type == "attempt_started"]
        since, until = record.created_at, starts[0] if starts else record.ended_at
        full = [(since, since), (until, until)]
        if max(cluster.away) < math.inf:
            full.append((EPOCH + cluster.away[0], EPOCH + cluster.away[1]))
        marks = sorted({began for began, _, _ in bodies} | {since})
        for at in marks:
            running = [(ended, tool) for began, ended, tool in bodies if began <= at < ended]
            same = [ended for ended, tool in running if tool == record.tool]
            if len(running) >= AT_ONCE:
                full.append((at, min(ended for ended, _ in running)))
            elif record.tool in _AT_ONCE_OF and len(same) >= _AT_ONCE_OF[record.tool]:
                full.append((at, min(same)))
            elif (
                record.tool == "rated"
                and sum(1 for began, _, tool in bodies if tool == "rated" and at - 1 <= began <= at) >= 4
            ):
                full.append((at, at + 1))
        over = since
        for begins, ends in sorted(full):
            if min(begins, until) > over + 5.0:
                yield f"{record.id} of {record.tool} waited for {min(begins, until) - over:.1f} s while there was room"
                break
            over = max(over, ends)


_QUEUED = ("pay", "put", "confirm", "broken", "narrow", "rated", "stream", "stubborn", "deaf")
"""Tools whose calls wait for nothing but a place."""
_AT_ONCE_OF = {"narrow": 1, "deaf": 2, "order_twice": 2}


def rates_hold(cluster: Cluster, records: list[Record]) -> Wrong:
    """A tool of n starts a second starts at most n + n t times in t seconds, over all processes."""
    if any(node.skewed for node in cluster.world.nodes):
        return
    for tool, rate in (("rated", 4), ("seldom", 1)):
        found = (
            event.at
            for record in records
            if record.tool == tool
            for event in record.events
            if event.type == "attempt_started"
        )
        starts = sorted(found)
        for first, since in enumerate(starts):
            for last in range(first, len(starts)):
                if last - first + 1 > rate + rate * (starts[last] - since) + 1.001:
                    yield f"{tool} has {last - first + 1} starts in {starts[last] - since:.2f} s"
                    return


def readers_get_the_end(cluster: Cluster, records: list[Record]) -> Wrong:
    """Where nothing fails, somebody who reads the events of a call has its end soon after it."""
    if cluster.faults or cluster.is_slow or cluster.network.was_bad:
        return
    ends = {record.id: record.ended_at - EPOCH for record in records if record.ended_at is not None}
    for id, began, at in cluster.scene.heard_ends:
        most = 1.0 if len(cluster.members) == 1 else 5.0  # what another process writes is noticed a while later
        if id in ends and at > max(began, ends[id]) + most:
            yield f"a reader of {id} got its end {at - ends[id]:.1f} s after it"


def a_due_time_is_one_call(cluster: Cluster, records: list[Record]) -> Wrong:
    if cluster.scene.scheduled_at is None:
        return
    dues = Counter(
        record.metadata["due"] for record in records if (record.metadata or {}).get("schedule") == "minutely"
    )
    for due, count in dues.items():
        if count > 1:
            yield f"{due} has {count} calls"


def a_webhook_has_one_id(cluster: Cluster, records: list[Record]) -> Wrong:
    ids: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for kind, thread, call, state, id in cluster.scene.webhooks:
        if kind == "call.ended":
            ids[thread, call].add(id)
            if not any(
                record.id == call and record.thread == thread and record.state.value == state for record in records
            ):
                yield f"the other system was told that {call} is {state}"
    for (_, call), found in ids.items():
        if len(found) > 1:
            yield f"the end of {call} was told under {len(found)} ids"


def messages_are_answered(cluster: Cluster, records: list[Record]) -> Wrong:
    """Each message has one turn, which finishes, and every answer to it is the same. A planner whose model asks for the same step again
    and again is stopped; a turn whose process a tool kills each time fails."""
    turns = Counter(
        (record.tool, record.arguments.get("thread"), record.arguments.get("id"))
        for record in records
        if record.tool in ("agent:boss", "agent:planner") and isinstance(record.arguments, dict)
    )
    for message in cluster.conversations.messages:
        count = turns[f"agent:{message.agent}", message.thread, message.id]
        if message.answers and count != 1:
            yield f"message {message.id} has {count} turns"
        if len(set(message.answers)) > 1:
            yield f"message {message.id} was answered {sorted(set(message.answers))}"
        stopped = any(thread == message.thread for _, thread, _ in cluster.scene.stops)
        ends = {"finished", *(["budget"] if cluster.has_small_budgets else []), *(["cancelled"] if stopped else [])}
        if message.agent == "planner":
            ends.add("repeated")
        if cluster.faults["killed by its tool"]:
            ends.add("error")
        if message.answers and message.answers[0][1] not in ends:
            yield f"message {message.id} ended as {message.answers[0]}"


def each_use_has_one_result(cluster: Cluster, records: list[Record]) -> Wrong:
    """Of each turn: the results on record are those that its replies ask for, each once; a reply is recorded once."""
    for record in records:
        if not record.tool.startswith("agent:"):
            continue
        entries = [event.data["entry"] for event in record.events if event.type == "note" and "entry" in event.data]
        asked = Counter(
            (entry["mark"], entry["step"], place)
            for entry in entries
            if entry["e"] == "reply"
            for place, _ in enumerate(entry["uses"])
        )
        replies = Counter((entry["mark"], entry["step"]) for entry in entries if entry["e"] == "reply")
        for (mark, step), count in replies.items():
            if count > 1:
                yield f"{record.thread} {record.id}: reply {mark} {step} is recorded {count} times"
        got = sum(len(entry["items"]) for entry in entries if entry["e"] == "results")
        over = any(entry["e"] == "ended" and entry["stopped"] == "finished" for entry in entries)
        if over and record.tool != "agent:planner" and got != sum(asked.values()):
            yield f"{record.thread} {record.id}: {sum(asked.values())} tool calls were asked for, and {got} results are recorded"


def a_recorded_reply_is_not_asked_for_again(cluster: Cluster, records: list[Record]) -> Wrong:
    yield from cluster.scene.asked_again


def the_accounts_are_the_ledger(cluster: Cluster, records: list[Record]) -> Wrong:
    """At rest, and nothing stays reserved."""
    books = cluster.books
    if books is None:
        return
    accounts: defaultdict[tuple[str, str], list[BudgetStatus]] = defaultdict(list)
    for status in books.budgets:
        if status.reserved_tokens or status.reserved_usd:
            yield f"{status.reserved_tokens} tokens and {status.reserved_usd} USD of {status.name} are reserved for ever"
        if status.period != "run":
            accounts[status.name, status.scope].append(status)  # threads of several callers may have one name
    for (budget, scope), found in accounts.items():
        kind, _, name = scope.partition(":")
        counted = (
            [books.total]
            if kind == "all"
            else [row for row in books.rows.get(kind, ()) if row.key == (name or "(none)")]
        )
        ledger = sum(row.tokens for row in counted), round(sum(row.usd for row in counted), 9)
        account = sum(each.spent_tokens for each in found), round(sum(each.spent_usd for each in found), 9)
        if account != ledger:
            yield f"the account {scope} of {budget} has {account} tokens and USD, the ledger {ledger}"
    scene = cluster.scene
    if cluster.known_tokens > scene.tokens_asked:
        yield f"the ledger has {cluster.known_tokens} tokens, and models were asked for {scene.tokens_asked}"
    if cluster.all_tokens < scene.tokens_asked - scene.tokens_refused and not cluster.may_forget:
        asked = scene.tokens_asked - scene.tokens_refused
        yield f"the ledger has {cluster.all_tokens} tokens with what is assumed, and models that did not refuse were asked for {asked}"


PREDICATES = (
    attempts_end_in_time, waits_in_the_queue_end_in_time, a_full_queue_refuses_only_new_calls,
    calls_start_when_there_is_room, a_decision_in_time_counts,
    slots_return, one_body_at_a_time, an_outside_result_is_the_outcome, an_outside_result_ends_its_call,
    deadlines_hold, no_takeover_without_a_death,
    no_more_at_once_than_allowed, rates_hold, a_due_time_is_one_call, messages_are_answered, each_use_has_one_result,
    one_answer_to_a_question, a_denied_call_does_not_run, approved_arguments_are_used, a_cached_result_is_its_callers,
    silent_bodies_are_stopped,
    a_webhook_has_one_id,
    a_cancel_stops_work,
    equal_calls_run_once, equal_calls_do_not_wait_in_vain, bodies_are_stopped_in_time, questions_end_in_time,
    a_recorded_reply_is_not_asked_for_again, the_accounts_are_the_ledger,
    readers_get_the_end, *FEATURES, *CLERKS,
)  # fmt: skip
