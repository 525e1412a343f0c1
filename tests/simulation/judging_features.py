"""Guarantees of what only some seeds exercise (`features.py`), as predicates with names, in the way of `judging.py`."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from tests.simulation.callers import SECRET
from tests.simulation.cluster import AT_ONCE, LEASE, Cluster
from tests.simulation.money import COSTS, PRICES
from tests.simulation.people import QUESTIONS
from tests.simulation.retention import RETENTION
from tests.simulation.world import EPOCH

from clicket.model import Record

__all__ = ["FEATURES"]

Wrong = Iterator[str]


# Servers.


def only_who_was_asked_to_is_cancelled(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call that nobody tried to cancel does not end as cancelled, whoever left its connection."""
    for record in records:
        asked = record.id in cluster.scene.may_be_cancelled
        if record.id in cluster.clients.given and not asked and record.state.value == "cancelled":
            yield f"{record.id} is cancelled, and nobody asked for it"


def a_decision_answers_what_was_seen(cluster: Cluster, records: list[Record]) -> Wrong:
    """A decision that says which question the person saw, and was acknowledged, answers that question."""
    for record in records:
        asked = ""
        for event in record.events:
            if event.type == "approval_requested":
                asked = event.data.get("hash", "")
            elif event.type == "approval_given":
                seen = cluster.scene.decided.get((record.id, event.data.get("reason", "")))
                if seen is not None and asked and seen != asked:
                    yield f"{record.id}: a decision on the question {seen[:16]} was taken for {asked[:16]}"


# Money.


def budgets_hold(cluster: Cluster, records: list[Record]) -> Wrong:
    """What models were asked for is never above a budget that stops or asks, with what people added."""
    if cluster.books is None or not cluster.has_small_budgets:
        return
    for status in cluster.books.budgets:
        if status.limit_tokens is not None and status.spent_tokens > status.limit_tokens + status.raised_tokens:
            most = status.limit_tokens + status.raised_tokens
            yield f"{status.name} of {status.scope} allows {most} tokens, and has {status.spent_tokens}"


def a_raise_counts_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """What was added to budgets is what people approved. A raise that was cancelled while it ran may have happened, once."""
    if cluster.books is None or any(each["period"] == "run" for each in cluster.budgets):
        return
    raises = [record for record in records if record.tool == "raise_budget" and isinstance(record.arguments, dict)]
    tokens = {record.id + record.thread: record.arguments["add_tokens"] for record in raises}  # type: ignore[index, call-overload]
    done = {record.id + record.thread for record in raises if record.state.value == "completed"}
    begun = {record.id + record.thread for record in raises if record.attempts}
    least, most = sum(tokens[name] for name in done), sum(tokens[name] for name in begun)
    raised = sum(status.raised_tokens for status in cluster.books.budgets if status.period != "run")
    if not least <= raised <= most:
        yield f"people added {least} to {most} tokens, and budgets were raised by {raised}"


def costs_are_in_the_ledger_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """A completed call's cost is what its last attempt reported, whatever attempts and processes came before. However a call ended, the
    ledger has what is on record of its cost."""
    if cluster.books is None:
        return
    counted = Counter[str]()
    for row in cluster.books.rows["run"]:
        counted[row.key] += round(row.own.usd * 1000)
    for record in records:
        if record.tool == "costly" and record.ended_at is not None:
            has = counted[f"{record.thread}/{record.id}"]
            if record.state.value == "completed" and has != round(sum(COSTS) * 1000):
                yield f"{record.id} cost {sum(COSTS)} USD in each attempt, and the ledger has {has / 1000}"
            said = [event.data["spend"] for event in record.events if event.type == "note" and "spend" in event.data]
            cost = round(sum({each["key"]: each["usd"] for each in said}.values()) * 1000)
            if has != cost:
                yield f"{record.id} is {record.state} and has cost {cost / 1000} USD by its events, and the ledger has {has / 1000}"


def recorded_replies_have_their_cost(cluster: Cluster, records: list[Record]) -> Wrong:
    """Of a turn that has finished, the ledger has what each recorded reply cost, and not what was assumed of it."""
    rows = {} if cluster.books is None else {row.key: row.own for row in cluster.books.rows["run"]}
    price = PRICES[0]
    for record in records:
        given = record.arguments if isinstance(record.arguments, dict) else {}
        entries = [event.data.get("entry") or {} for event in record.events if record.tool.startswith("agent:")]
        replies = [entry for entry in entries if entry.get("e") == "reply"]
        if replies and any(entry.get("e") == "ended" and entry["stopped"] == "finished" for entry in entries):
            row = rows.get(f"{given['thread']}/{record.tool.removeprefix('agent:')}.{given['turn']}")
            usages = [reply["usage"] for reply in replies]
            tokens = sum(
                each.get("input_tokens", 0) * price["input"] + each.get("output_tokens", 0) * price["output"]
                for each in usages
            )
            has = 0.0 if row is None else row.usd - row.assumed_usd
            if cluster.books is not None and has < tokens / 1e6 - 1e-9:
                yield f"the replies of {record.id} in {given['thread']} cost {tokens / 1e6} USD, and the ledger has {has}"


# People.


def grants_hold(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call that a grant approved fits its terms, no grant is used more often than it says, and each was given with an approval that is on
    record and was not revoked before the call was made."""
    given: dict[str, tuple[dict[str, Any], Record]] = {}
    used: defaultdict[str, list[Record]] = defaultdict(list)
    for record in records:
        for event in record.events:
            if event.type == "approval_given" and isinstance(grant := event.data.get("grant"), str):
                terms = cluster.scene.count.get((record.id, str(event.data.get("reason"))))
                if event.data.get("reason") == f"grant {grant}":
                    used[grant].append(record)
                elif terms is not None:
                    given[grant] = (terms.terms, record)
    for grant, calls in used.items():
        if grant not in given:
            yield f"{calls[0].id} was approved by {grant}, which nobody has given"
            continue
        terms, first = given[grant]
        if len(calls) > terms.get("uses", len(calls)):
            yield f"{grant} is for {terms['uses']} calls, and approved {len(calls)}"
        for call in calls:
            most = terms.get("arguments", {}).get("properties", {}).get("before", {}).get("maximum")
            arguments = call.arguments if isinstance(call.arguments, dict) else {}
            if most is not None and arguments.get("before", 0) > most:
                yield f"{call.id} has other arguments than {grant}"
            if terms.get("thread", call.thread) != call.thread or terms.get("caller", first.caller) not in (
                "*",
                call.caller,
            ):
                yield f"{call.id} has another thread or caller than {grant}"
            at, made = cluster.scene.revoked.get(grant), cluster.clients.made_at.get(call.id)
            if at is not None and made is not None and made > at:
                yield f"{call.id} was made after {grant} was revoked, and was approved by it"


def each_question_gets_its_answer(cluster: Cluster, records: list[Record]) -> Wrong:
    """A tool that asks gets what a person answered, to each of its questions."""
    for record in records:
        if record.tool != "asking" or record.state.value != "completed" or not isinstance(record.output, dict):
            continue
        known = cluster.scene.answered.get(record.id, set())
        for key, answer in zip(QUESTIONS, record.output["answers"], strict=True):
            if answer not in ("decline", "cancel") and (answer not in known or not answer.startswith(key)):
                yield f"{record.id} asked for the {key} name, and got {answer!r}"


def a_token_belongs_to_its_attempt(cluster: Cluster, records: list[Record]) -> Wrong:
    """A result from outside came with the token of the attempt that was the last one then: it says which attempt it worked for."""
    for record in records:
        attempt = 0
        for event in record.events:
            attempt += event.type == "attempt_started"
            output = event.data.get("output") if event.type == "reported" else None
            if isinstance(output, dict) and output["attempt"] != attempt:
                yield f"{record.id} took a result of attempt {output['attempt']} in attempt {attempt}"


# Agents.


def a_call_follows_its_reply(cluster: Cluster, records: list[Record]) -> Wrong:
    """The body of an agent's tool call begins after the reply that asked for it is on record."""
    yield from cluster.scene.unasked


def the_memory_is_what_turns_recorded(cluster: Cluster, records: list[Record]) -> Wrong:
    """A model reads each earlier message of its thread once. The document of a turn says what its last entry says, and is written after
    that entry. A body that its call did not wait for may write an entry later."""
    for request in cluster.scene.requests:
        for text, count in Counter(request.users).items():
            if count > 1 and text.startswith(("do ", "help ")):
                yield f"a request for {request.text!r} has {text!r} {count} times"
    ends = {}
    for record in records:
        given = record.arguments if isinstance(record.arguments, dict) else {}
        for event in record.events if record.tool.startswith("agent:") else ():
            is_late = record.ended_at is not None and event.at > record.ended_at
            if (entry := event.data.get("entry") or {}).get("e") == "ended" and not is_late:
                name = f"{quote(record.caller, safe='')}/{record.tool.removeprefix('agent:')}/{quote(given['thread'], safe='')}"
                ends[f"{name}/{given['turn']}"] = (event.at, entry)
    for key, body, at in cluster.place.documents("agent.turn"):
        document, (name, _, number) = json.loads(body), key.rpartition("/")
        found = ends.get(f"{name}/{int(number)}")
        if found is not None and at < found[0] - 1e-3 and not any(node.skewed for node in cluster.world.nodes):
            yield f"the memory of {key} was written {found[0] - at:.3f} s before the end of its turn was recorded"
        if found is not None and (document.get("text", ""), document.get("stopped") or "") != (
            found[1]["text"],
            found[1]["stopped"],
        ):
            yield f"the memory of {key} has {document.get('text')!r}, and its turn recorded {found[1]['text']!r}"


def a_draining_worker_starts_nothing(cluster: Cluster, records: list[Record]) -> Wrong:
    """What waits at a worker that drains goes to others: it starts no call for the first time, three seconds later, unless it is let work
    again."""
    if cluster.is_slow or any(node.skewed for node in cluster.world.nodes):
        return
    well = {node.name for node in cluster.world.nodes if not node.was_away}
    for place, (at, name, what) in enumerate(cluster.scene.steered):
        again = next((when for when, node, _ in cluster.scene.steered[place + 1 :] if node == name), float("inf"))
        for record in records if what == "drain" and name in well else ():
            for event in record.events if record.id in cluster.clients.given else ():
                begins = (
                    event.type == "attempt_started" and event.data["attempt"] == 1 and event.data.get("host") == name
                )
                if begins and at + 3.0 < event.at - EPOCH < again:
                    yield f"{record.id} of {record.tool} began in {name} {event.at - EPOCH - at:.1f} s after it was told to drain"


def a_stopped_turn_asks_no_model(cluster: Cluster, records: list[Record]) -> Wrong:
    """A process that takes a turn over whose stop is on record asks no model for it."""
    for record in records:
        stopped = next((event for event in record.events if event.type == "cancel_requested"), None)
        if stopped is None or record.tool not in ("agent:boss", "agent:helper", "agent:junior"):
            continue
        asked = record.arguments.get("message") if isinstance(record.arguments, dict) else None
        later = {
            event.data["host"] for event in record.events if event.type == "attempt_started" and event.seq > stopped.seq
        }
        for request in cluster.scene.requests:
            if request.node in later and request.text == asked and request.at > stopped.at - EPOCH:
                yield f"{request.node} took {record.id} over after its stop, and asked a model for {request.text!r}"


def an_agents_answer_is_its_turns(cluster: Cluster, records: list[Record]) -> Wrong:
    """The result of an agent that is a tool is the answer with which its turn ended."""
    answers: defaultdict[str, list[str]] = defaultdict(list)
    for record in records:
        for event in record.events if record.tool in ("agent:helper", "agent:junior") else ():
            if (entry := event.data.get("entry") or {}).get("e") == "ended" and isinstance(record.arguments, dict):
                answers[record.arguments["message"]].append(entry["text"])
    for record in records:
        given = record.arguments if isinstance(record.arguments, dict) else {}
        if record.tool in ("helper", "junior") and record.state.value == "completed":
            ends = answers[str(given.get("task"))]
            if not any(str(record.output).endswith(text) for text in ends):
                yield f"{record.id} of {record.tool} has the result {record.output!r}, and the turn ended as {ends}"


def a_step_waits_for_its_needs(cluster: Cluster, records: list[Record]) -> Wrong:
    """The model is asked to carry out the last step of the plan when the two others are completed, as the plan says."""
    for request in cluster.scene.requests:
        if "Carry out step 3" in request.text and not ("1. [x]" in request.text and "2. [x]" in request.text):
            yield f"step 3 began with the plan {request.text!r}"


def an_outage_fails_no_step(cluster: Cluster, records: list[Record]) -> Wrong:
    """A step of a plan is blocked only if a model refuses it, if a budget is spent or if the turn is stopped."""
    if cluster.features.refusals or cluster.has_small_budgets or cluster.scene.stops:
        return
    for request in cluster.scene.requests:
        if ". [!]" in request.text:
            yield f"a step was blocked: {request.text!r}"


def a_background_result_is_read_once(cluster: Cluster, records: list[Record]) -> Wrong:
    """No model reads the result of a background call twice, and none is asked without it once the call has ended."""
    ended = {
        record.id: record.ended_at - EPOCH for record in records if record.tool == "job" and record.ended_at is not None
    }
    troubled = cluster.is_slow or cluster.network.was_bad or cluster.disk_faults is not None
    troubled = troubled or any(node.was_away or node.skewed for node in cluster.world.nodes)
    for request in cluster.scene.requests:
        for id, count in Counter(request.read).items():
            if count > 1:
                yield f"the result of {id} was read {count} times in a request for {request.text!r}"
        for id in request.started:
            if id not in request.read and not troubled and ended.get(id, request.at) < request.at - 1.0:
                yield f"{id} has ended {request.at - ended[id]:.1f} s before a request for {request.text!r}, which does not have its result"


def a_stop_ends_the_turn(cluster: Cluster, records: list[Record]) -> Wrong:
    """After a stop is acknowledged the turn that was under way asks no model again, nor do the agents that it called. (Where nothing
    fails.)"""
    if cluster.faults or cluster.is_slow or cluster.network.was_bad:
        return
    for at, thread, took in cluster.scene.stops:
        for record in records:
            inside = record.thread.partition("\n")[0]
            if not (took and record.tool.startswith("agent:") and isinstance(record.arguments, dict)):
                continue
            of = str(record.arguments.get("thread", inside))
            begun, ended = record.created_at - EPOCH, (record.ended_at or record.created_at) - EPOCH
            if (of == thread or of.startswith(f"{thread}/")) and begun < at and ended > at + 3.0:
                yield f"{record.id} of {of} ended {ended - at:.1f} s after its stop was acknowledged"


def a_stopped_turn_leaves_no_call_behind(cluster: Cluster, records: list[Record]) -> Wrong:
    """What a turn had called, and had not ended when the turn was stopped, was cancelled, or was about to end."""
    if any(node.skewed for node in cluster.world.nodes):
        return
    for turn in records:
        stopped = turn.state.value == "cancelled" or (
            isinstance(turn.output, dict) and turn.output.get("stopped") == "cancelled"
        )
        given = turn.arguments if isinstance(turn.arguments, dict) else {}
        if not (stopped and turn.tool.startswith("agent:") and turn.ended_at is not None):
            continue
        mark = f":{turn.tool.removeprefix('agent:')}.{given.get('turn')}."
        for call in records:
            if (
                call.thread != given.get("thread")
                or call.caller != turn.caller
                or mark not in f":{call.id}"
                or call.tool == "job"
            ):
                continue
            left = call.ended_at is None or call.ended_at > turn.ended_at + 2 * LEASE
            begun = any(event.type == "attempt_started" and event.at > turn.ended_at + 0.5 for event in call.events)
            if (left or begun) and not (call.cancel_requested or call.state.value == "cancelled"):
                what = "begun after" if begun else "left running when"
                yield f"{call.id} of {call.tool} was {what} {turn.id} of {call.thread} was stopped"


def a_thread_has_one_turn_at_a_time(cluster: Cluster, records: list[Record]) -> Wrong:
    """The next turn of a thread begins after the end of the one before is on record; its call may end a moment later."""
    if any(node.skewed for node in cluster.world.nodes):
        return
    turns: defaultdict[tuple[str, str, str], list[Record]] = defaultdict(list)
    for record in records:
        if record.tool.startswith("agent:") and isinstance(record.arguments, dict):
            turns[record.caller, record.tool, str(record.arguments.get("thread"))].append(record)
    for (_, tool, thread), found in turns.items():
        for before, after in pairwise(sorted(found, key=lambda record: record.created_at)):
            ends = [event.at for event in before.events if (event.data.get("entry") or {}).get("e") == "ended"]
            if min([*ends, before.ended_at or after.created_at + 1]) > after.created_at + 1e-6:
                yield f"{after.id} of {tool} in {thread} began while {before.id} was under way"


# Credentials.


def a_credential_is_its_callers(cluster: Cluster, records: list[Record]) -> Wrong:
    """A body gets a credential of its call's caller, and none that was revoked before the call was made."""
    known = {token.secret: token for token in cluster.holders.put_tokens}
    for id, caller, secret in cluster.scene.tokens_used:
        token = known.get(secret)
        if token is None or token.caller != caller:
            yield f"{id} of {caller!r} got {secret}"
        elif token.gone_at is not None and cluster.clients.made_at.get(id, 0.0) > token.gone_at:
            yield f"{id} was made after {secret} was revoked, and got it"


def a_secret_is_shown_nowhere(cluster: Cluster, records: list[Record]) -> Wrong:
    for record in records:
        if record.tool == "with_key" and any(SECRET in repr(event.data) for event in record.events):
            yield f"the events of {record.id} have a credential"
    for ack in cluster.scene.acks:
        if SECRET in repr(ack.output):
            yield f"a caller of {ack.id} was shown a credential"


def a_credential_ends_the_wait(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call goes on soon after its caller's credential is put, in any process. (Where nothing fails and no worker is cordoned, or not any
    more.) It then waits in the queue while the process that runs it has no place."""
    troubled = cluster.faults or cluster.is_slow or cluster.network.was_bad or cluster.features.operators
    for record in records:
        since = next(
            (event.at - EPOCH for event in record.events if event.data.get("waiting_for") == "credential"), None
        )
        if since is None or record.tool != "with_key":
            continue
        over = next(
            (
                event.at - EPOCH
                for event in record.events
                if event.at - EPOCH > since and "waiting_for" not in event.data
            ),
            since,
        )
        for token in cluster.holders.put_tokens:
            put = token.put_at
            if troubled and (put is None or put < cluster.storm_ended + 10.0 or cluster.is_slow):
                continue
            if (
                token.caller != record.caller
                or put is None
                or token.gone_at is not None
                or not since < put < over - 5.0
            ):
                continue
            if over - put - _full_for(cluster, record, put, over) > 5.0:
                yield f"{record.id} waited {over - put:.1f} s after its caller's credential was put"


def _full_for(cluster: Cluster, record: Record, since: float, until: float) -> float:
    """For how long the process that ran the call ran as many bodies as it may."""
    host = next((event.data["host"] for event in record.events if event.type == "attempt_started"), None)
    bodies = [
        (body.began, math.inf if body.ended is None else body.ended)
        for body in cluster.scene.bodies
        if body.node is not None and body.node.name == host
    ]
    marks = sorted({since, until, *(at for body in bodies for at in body if since < at < until)})
    return sum(
        after - at for at, after in pairwise(marks) if sum(began <= at < ended for began, ended in bodies) >= AT_ONCE
    )


# Schedules.


def schedules_follow_their_rule(cluster: Cluster, records: list[Record]) -> Wrong:
    """Each due time has a call, or is on record as skipped or missed; and which of them is what `overlap` and `catch_up` say."""
    shown, table, made = cluster.timetable.shown, cluster.timetable, cluster.scene.scheduled_at
    if shown is None or made is None or any(node.skewed for node in cluster.world.nodes):
        return
    calls = {
        record.metadata["due"]: record for record in records if (record.metadata or {}).get("schedule") == "minutely"
    }
    left_out: dict[float, str] = {}
    for entry in shown.log:
        if entry.outcome in ("skipped", "missed"):
            for due in range(round(entry.due), round(entry.until or entry.due) + 1, 60):
                left_out[float(due)] = entry.outcome
        if entry.outcome == "missed" and entry.at - (entry.until or entry.due) < 60:
            yield f"{entry.due} is on record as missed, {entry.at - entry.due:.1f} s after it was due"
    for due in range((int(EPOCH + made) // 60 + 2) * 60, round(shown.last_due) + 1, 60):
        if (due in calls) == (due in left_out) and due not in shown.waiting:
            yield f"{due} has {'both' if due in calls else 'neither'} a call and an entry that says why it has none"
    outcomes = Counter(left_out.values())
    if (table.catch_up == "all" and outcomes["missed"]) or (table.overlap != "skip" and outcomes["skipped"]):
        yield f"{dict(outcomes)} with catch_up {table.catch_up!r} and overlap {table.overlap!r}"
    ran = sorted(calls.values(), key=lambda record: record.created_at)
    if table.overlap != "allow":
        for before, after in pairwise(ran):
            if before.ended_at is None or before.ended_at > after.created_at + 1.0:
                yield f"{after.id} was made while {before.id} ran"
    late = [record for record in ran if record.created_at - (record.metadata or {})["due"] > 60 + 3 * LEASE]
    most = {"none": 0, "last": 1, "all": len(ran)}[table.catch_up]
    if table.overlap != "queue" and len(late) > most:
        yield f"{[record.id for record in late]} were made too late, with catch_up {table.catch_up!r}"


def a_decided_firing_is_continued(cluster: Cluster, records: list[Record]) -> Wrong:
    """A due time that a process had decided on when it died has its call soon: another one looks for it."""
    if (
        cluster.timetable.overlap != "allow"
        or cluster.timetable.outage
        or cluster.is_slow
        or cluster.disk_faults is not None
    ):
        return
    if any(node.skewed for node in cluster.world.nodes) or cluster.faults["cut"] or cluster.network.was_bad:
        return
    most = 20.0 + cluster.nobody_for
    for record in records:
        due = (record.metadata or {}).get("due")
        if due is not None and record.created_at - due > most:
            yield f"{record.id} was due {record.created_at - due:.1f} s before it was made"


# Retention.


def nothing_is_removed_early(cluster: Cluster, records: list[Record]) -> Wrong:
    """A call is kept for its time, by the store's date or the sweeping process's; calls of an agent's turns as long as their thread."""
    talks = {message.thread for message in cluster.conversations.messages}
    skew = max((abs(node.skew) for node in cluster.world.nodes if node.skewed), default=0.0)
    for record, at in cluster.archive.removed():
        assert record.ended_at is not None
        if at - record.ended_at < RETENTION - 1.0 and not skew and not any(node.skewed for node in cluster.world.nodes):
            yield f"{record.id} of {record.tool} was removed {at - record.ended_at:.1f} s after its end"
        if record.tool.startswith("agent:") or record.thread in talks:
            yield f"{record.id} of {record.tool} was removed, and its thread {record.thread} is kept"


def what_is_old_is_removed(cluster: Cluster, records: list[Record]) -> Wrong:
    """At rest, of calls that no thread keeps, none is much older than its time."""
    if not cluster.features.sweeps or not cluster.came_to_rest or any(node.skewed for node in cluster.world.nodes):
        return
    talks = {message.thread for message in cluster.conversations.messages}
    for call in cluster.place.calls():
        age = EPOCH + cluster.world.now - (call.ended_at or EPOCH + cluster.world.now)
        if call.id in cluster.clients.given and call.thread not in talks and age > 2 * RETENTION + 6:
            yield f"{call.id} of {call.tool} ended {age:.0f} s ago, and is still there"


FEATURES = (
    a_token_belongs_to_its_attempt, a_call_follows_its_reply, the_memory_is_what_turns_recorded, a_stopped_turn_asks_no_model,
    an_agents_answer_is_its_turns, a_draining_worker_starts_nothing,
    nothing_is_removed_early, what_is_old_is_removed,
    a_credential_is_its_callers, a_secret_is_shown_nowhere, a_credential_ends_the_wait, schedules_follow_their_rule,
    a_decided_firing_is_continued,
    a_background_result_is_read_once, a_step_waits_for_its_needs, an_outage_fails_no_step, a_stop_ends_the_turn,
    a_stopped_turn_leaves_no_call_behind, a_thread_has_one_turn_at_a_time,
    grants_hold, each_question_gets_its_answer,
    only_who_was_asked_to_is_cancelled, a_decision_answers_what_was_seen, budgets_hold, a_raise_counts_once,
    costs_are_in_the_ledger_once, recorded_replies_have_their_cost,
)  # fmt: skip
