"""Invariants after any kill: pure functions over the store's records, the effect lines and the acknowledgements.

A child appends each acknowledgement ("ack") to a file as soon as it gets it, and a tool's body its effect. The store
must agree with both afterwards. The judge never reads the product's memory; it reports each finding in one line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from clicket import Event, Record, State
from clicket.kernel import CALL

__all__ = ["Ack", "Effect", "Finding", "Rule", "Verdict", "ended", "judge", "sound"]

_NEVER_RAN = frozenset(
    {"tool_not_found", "permission_denied", "approval_denied", "invalid_input", "tool_unavailable", "arguments_lost"}
)
"""Error codes that mean: the tool did not run."""
_AFTER_THE_END = ("late_result", "resolved")
_AT_WORK = (State.INITIALIZING, State.RUNNING, State.STREAMING)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool's author declared, as far as it matters after a crash."""

    repeatable: bool = False
    recovery: str = "auto"
    needs_approval: bool = False
    max_retries: int = 3
    artifact: bool = False
    cached: bool = False


class Effect(msgspec.Struct, frozen=True, array_like=True):
    """One run of a tool's body."""

    id: str
    attempt: int
    key: str
    tool: str


class Ack(msgspec.Struct, frozen=True, kw_only=True):
    """An acknowledgement that a child got before it died.

    `did`: "submit" (accepted), "result" (its outcome), "saw" (an event), "cancel" and "decide" (took effect or
    recorded), "trouble" (an answer that no caller should get, or an error in the log).
    """

    did: str
    id: str = ""
    state: str = ""
    code: str | None = None
    output: Any = None
    artifact: str | None = None
    seq: int = 0
    type: str = ""
    took: bool = False
    text: str = ""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A violated guarantee. `kind`: lost, repeated or wrong."""

    kind: str
    id: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: call {self.id}: {self.text}"


class Verdict(msgspec.Struct, kw_only=True):
    calls: int = 0
    acked: int = 0
    unknown: int = 0
    findings: list[Finding] = []

    def count(self, kind: str) -> int:
        """Calls, not findings: a call with two findings counts once."""
        return len({finding.id for finding in self.findings if finding.kind == kind})


def judge(
    records: Iterable[Record],
    effects: Iterable[Effect],
    acks: Iterable[Ack],
    rules: Mapping[str, Rule],
    *,
    max_claims: int = 5,
    artifacts: Mapping[str, bytes] | None = None,
    texts: Mapping[str, str] | None = None,
) -> Verdict:
    """`artifacts`: the bytes under each name; `texts`: what the artifact of a call must hold."""
    verdict = Verdict(findings=[])
    ran: defaultdict[str, list[Effect]] = defaultdict(list)
    answered: defaultdict[str, list[Ack]] = defaultdict(list)
    stored: dict[str, Record] = {}
    for effect in effects:
        ran[effect.id].append(effect)
    for ack in acks:
        answered[ack.id].append(ack)
    for record in records:
        if record.id in stored:
            verdict.findings.append(Finding(kind="wrong", id=record.id, text="it is listed twice"))
        stored[record.id] = record
    verdict.calls = len(stored)
    verdict.acked = sum(1 for id, own in answered.items() if id and any(a.did in ("submit", "result") for a in own))
    verdict.unknown = sum(1 for r in stored.values() if r.error is not None and r.error.code == "outcome_unknown")
    for id in {*answered, *ran} - {*stored}:
        verdict.findings += _missing(id, answered[id], ran[id])
    for id, record in stored.items():
        rule = rules[record.tool]
        checks = (
            sound(record),
            ended(record),
            _effects(record, ran[id], rule),
            _attempts(record, ran[id], rule),
            _outcome(record, ran[id], rule, max_claims),
            _acks_agree(record, answered[id]),
            _artifact(record, rule, artifacts, texts or {}),
        )
        verdict.findings += [Finding(kind=kind, id=id, text=text) for found in checks for kind, text in found]
    verdict.findings += _shared_keys(stored.values())
    return verdict


Found = Iterator[tuple[str, str]]


def _missing(id: str, answered: Sequence[Ack], ran: Sequence[Effect]) -> list[Finding]:
    """An id that the store does not have. It is a loss only if the store had acknowledged it."""
    found = [Finding(kind="wrong", id=id, text=ack.text) for ack in answered if ack.did == "trouble"]
    if any(ack.did != "trouble" for ack in answered):
        found.append(
            Finding(
                kind="lost", id=id, text=f"acknowledged {sorted({a.did for a in answered})}, and there is no such call"
            )
        )
    if ran:
        found.append(Finding(kind="lost", id=id, text=f"its body ran {len(ran)} times, and there is no such call"))
    return found


def sound(record: Record) -> Found:
    """Event numbers have no gap, every transition is in the table, one end, and after it nothing but late results."""
    events = record.events
    if [event.seq for event in events] != list(range(1, len(events) + 1)):
        yield "wrong", f"its events are numbered {[event.seq for event in events]}"
    if not events or events[0].type != "created":
        yield "wrong", "its first event is not `created`"
        return
    if any(event.call_id != record.id for event in events):
        yield "wrong", "it has events of another call"
    state = events[0].state
    if state is not CALL.initial:
        yield "wrong", f"it was created {state}"
    for event in events[1:]:
        if event.type == "state_changed" and event.state not in CALL.edges[state]:
            yield "wrong", f"event {event.seq}: {state} -> {event.state} is not in the table"
        elif event.type != "state_changed" and event.state is not state:
            yield "wrong", f"event {event.seq} ({event.type}) changed the state from {state} to {event.state}"
        state = event.state
    if record.state is not state:
        yield "wrong", f"it is listed as {record.state}, and its events end in {state}"


def ended(record: Record, *, also: Sequence[str] = ()) -> Found:
    """`also`: types of events that may come after the end."""
    ends = [event for event in record.events if event.is_terminal]
    if len(ends) > 1:
        yield "wrong", f"it ended {len(ends)} times: {', '.join(f'{e.seq} {e.state}' for e in ends)}"
    if not ends and record.waiting_for != "approval":
        yield "wrong", f"it was left behind, {record.state}"
    if ends:
        late = (*_AFTER_THE_END, *also)
        after = [event.type for event in record.events if event.seq > ends[0].seq and event.type not in late]
        if after:
            yield "wrong", f"after its end came {after}"


def _effects(record: Record, ran: Sequence[Effect], rule: Rule) -> Found:
    """Intent before effect, one effect per attempt, one key for all of them."""
    begun = [event.data["attempt"] for event in record.events if event.type == "attempt_started"]
    if begun != list(range(1, len(begun) + 1)):
        yield "wrong", f"its attempts are numbered {begun}"
    for attempt, times in Counter(effect.attempt for effect in ran).items():
        if attempt not in begun:
            yield "wrong", f"attempt {attempt} had an effect, and its start is not in the journal"
        if times > 1:
            yield ("wrong" if rule.repeatable else "repeated"), f"attempt {attempt} had {times} effects"
    keys = {effect.key for effect in ran}
    if keys - {record.idempotency_key}:
        yield "wrong", f"its body saw the keys {sorted(keys)}, and its own is {record.idempotency_key}"
    if any(effect.tool != record.tool for effect in ran):
        yield "wrong", "another tool ran for it"


def _attempts(record: Record, ran: Sequence[Effect], rule: Rule) -> Found:
    """The journal shows a reason for every attempt after the first. A first attempt needs an approval if the policy
    asks for one."""
    cause = ""
    approved = ruled_out = False
    retries = 0
    for event in record.events:
        if event.type == "approval_given":
            approved = bool(event.data["approved"])
        elif event.type == "state_changed" and event.state is State.RETRYING:
            cause = str((event.data.get("error") or {}).get("code"))
            approved = False
            retries += cause != "outcome_unknown"
        elif event.type == "reconcile_ended":
            ruled_out = event.data["outcome"] == "did_not_happen"
        elif event.type == "attempt_started":
            attempt = event.data["attempt"]
            if attempt == 1:
                if rule.needs_approval and not approved:
                    yield "wrong", "it ran without the approval that it needs"
            elif cause == "outcome_unknown" and not (
                rule.repeatable or ruled_out or (rule.recovery == "ask" and approved)
            ):
                effects = [effect.attempt for effect in ran if effect.attempt <= attempt]
                kind = "repeated" if len(effects) > 1 else "wrong"
                yield kind, f"attempt {attempt} was made though the outcome of the one before is unknown"
            elif cause == "timeout" and not rule.repeatable:
                yield "repeated", f"attempt {attempt} was made after a timeout"
            elif not cause:
                yield "repeated" if not rule.repeatable else "wrong", f"attempt {attempt} was made for no reason"
            cause, ruled_out = "", False
    if retries > rule.max_retries:
        yield "wrong", f"it was retried {retries} times, its tool allows {rule.max_retries}"


def _outcome(record: Record, ran: Sequence[Effect], rule: Rule, max_claims: int) -> Found:
    """The outcome agrees with the tool's effect, and an unknown effect is reported as unknown."""
    if not record.state.is_terminal:
        return
    if record.state is State.COMPLETED:
        if record.error is not None:
            yield "wrong", f"it is completed with the error {record.error.code}"
        if record.cached:
            if not rule.cached or record.attempts:
                yield "wrong", f"it was served from the cache after {len(record.attempts)} attempts"
        elif (record.metadata or {}).get("answered_by"):
            if ran:
                yield "wrong", "a person answered in the tool's place, and the tool ran"
        elif len(record.attempts) not in [effect.attempt for effect in ran]:
            yield "wrong", f"it is completed, and attempt {len(record.attempts)} had no effect"
        return
    if record.error is None:
        yield "wrong", f"it is {record.state} without an error"
        return
    code = record.error.code
    last = record.attempts[-1].outcome if record.attempts else None
    if code in _NEVER_RAN and ran and not any(a.outcome == "outcome_unknown" for a in record.attempts):
        yield "wrong", f"it had an effect, and failed with {code} as if it had not run"
    if code == "outcome_unknown":
        deaths = sum(1 for event in record.events if _is_death(event))
        if not record.attempts and deaths < max_claims:
            yield "wrong", "its outcome is called unknown though it never started"
        elif rule.repeatable and deaths < max_claims:
            yield "wrong", f"it may be repeated, and was given up after {deaths} owners had died"
    elif last == "outcome_unknown" and code not in _NEVER_RAN | {"cancelled", "timeout"}:
        yield "wrong", f"the outcome of its last attempt is unknown, and it says {code}"


def _is_death(event: Event) -> bool:
    """A takeover from an owner that died while it ran the call; an owner's death while the call waited does not
    count."""
    return event.type == "note" and "claims" in event.data and event.state in _AT_WORK


def _acks_agree(record: Record, answered: Sequence[Ack]) -> Found:
    """Every answer that a child got agrees with the store."""
    for ack in answered:
        if ack.did == "trouble":
            yield "wrong", ack.text
        elif ack.did == "result":
            code = record.error.code if record.error is not None else None
            now = (record.state.value, code, record.artifact)
            if now != (ack.state, ack.code, ack.artifact):
                yield "wrong", f"a caller got {ack.state} {ack.code or ''}, and the store says {now}"
            elif record.artifact is None and record.output != ack.output:
                yield "wrong", f"a caller was given {ack.output!r}, and the store has {record.output!r}"
        elif ack.did == "saw":
            event = record.events[ack.seq - 1] if 0 < ack.seq <= len(record.events) else None
            if event is None or (event.type, event.state.value) != (ack.type, ack.state):
                yield "lost", f"a reader saw event {ack.seq} {ack.type} {ack.state}, and the store has {event}"
        elif ack.took and not _on_record(record, ack):
            yield "lost", f"a {ack.did} {ack.text} was answered with True, and is not on record"


def _on_record(record: Record, ack: Ack) -> bool:
    if ack.did == "cancel":
        return record.state is State.CANCELLED or record.cancel_requested
    return any(event.type == "approval_given" and event.data["by"] == ack.text for event in record.events)


def _artifact(record: Record, rule: Rule, artifacts: Mapping[str, bytes] | None, texts: Mapping[str, str]) -> Found:
    if artifacts is None or not rule.artifact or record.state is not State.COMPLETED:
        return
    if record.artifact is None or artifacts.get(record.artifact) != texts[record.id].encode():
        yield "lost", f"its artifact {record.artifact} is not what it returned"


def _shared_keys(records: Iterable[Record]) -> list[Finding]:
    owners: defaultdict[str, list[str]] = defaultdict(list)
    for record in records:
        owners[record.idempotency_key].append(record.id)
    return [
        Finding(kind="wrong", id=ids[0], text=f"the key {key} is shared by {ids}")
        for key, ids in owners.items()
        if len(ids) > 1
    ]
