"""Planted mistakes: each is a small change of the product's source that breaks one of its guarantees.

They show what the simulation's judge can find, so they were written apart from it, from the product and its contract alone. A simple call
still completes with each of them: the fault shows only under some order of events, such as a crash, a pause longer than the lease, a
lost answer, a cancel at one moment, two people who decide at once, a retry, a restart, a full queue or an outage of the store.

`planted.py` plants one into a fresh interpreter; `test_mutants_apply.py` keeps them in step with the source.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["AREAS", "HARMLESS", "MUTANTS", "Change", "Mutant"]

AREAS = (
    "calls", "leases", "people", "external", "cache", "slots", "schedules", "spend", "agents", "webhooks", "store", "server", "credentials",
    "retention", "messages", "middleware", "models", "handoffs", "memory",
)  # fmt: skip


class Change(NamedTuple):
    """`file` is relative to `src/clicket`. `old` is in it exactly once."""

    file: str
    old: str
    new: str


class Mutant(NamedTuple):
    """`name`: what is broken. `breaks`: the guarantee that does not hold any more. `aim`: which seeds are likely to show it, by the names
    of rare combinations (`focus.py`), with "; " between them; empty: any seed."""

    name: str
    area: str
    changes: tuple[Change, ...]
    breaks: str
    aim: str = ""


_CALLS = (
    Mutant(
        "a submit is answered while its first commit is under way",
        "calls",
        (
            Change(
                "engine/lifecycle/ending.py",
                "        if not call.entry.durable:\n            call.accepted",
                "        if not call.entry.durable and call.entry.inflight is None:\n            call.accepted",
            ),
        ),
        "Durable before visible: a submit is answered only after the store has the call.",
    ),
    Mutant(
        "the caller gets its result before the outcome is durable",
        "calls",
        (
            Change(
                "engine/journal/journal.py",
                "        entry.ended_at = entry.last_at = at\n        entry.then = (then, subject)\n",
                "        entry.ended_at = entry.last_at = at\n        entry.then = (lambda *_: None, subject)\n"
                "        then(subject, None)\n",
            ),
        ),
        "Durable before visible: an outcome is shown only after the store has it.",
    ),
    Mutant(
        "the body of a plain call does not wait for the record of its start",
        "calls",
        (
            Change(
                "engine/lifecycle/running.py",
                "            self._journal.start_and_commit(entry, self._on_start_durable, call)\n",
                "            self._journal.start_and_commit(entry, self._ending.on_created, call)\n"
                "            self._on_start_durable(call, None)\n",
            ),
        ),
        "Intent before effect: the attempt's start is durable before the tool's code runs.",
    ),
    Mutant(
        "the body of a call that waited or was taken over does not wait for the record of its start",
        "calls",
        (
            Change(
                "engine/journal/journal.py",
                "            self.commit(entry, partial(then, subject))\n",
                "            self.commit(entry)\n            then(subject, None)\n",
            ),
        ),
        "Intent before effect: also the start of a call that was queued or recovered is durable before its body runs.",
    ),
    Mutant(
        "the body of a retry does not wait for the record of its start",
        "calls",
        (
            Change(
                "engine/lifecycle/runner.py",
                "        self._journal.start(call.entry)\n        await self._journal.flush(call.entry)\n",
                "        self._journal.start(call.entry)\n        self._journal.commit(call.entry)\n",
            ),
        ),
        "Intent before effect: each attempt's start is durable before the tool's code runs, not only the first one's.",
    ),
    Mutant(
        "only the first attempt of a call has its start on record",
        "calls",
        (
            Change(
                "engine/journal/staging.py",
                '        self.record(entry, "attempt_started", attempt_data(entry.attempts, self.worker, self._host))\n'
                "        if entry.started_at is None:\n",
                "        if entry.started_at is None:\n"
                '            self.record(entry, "attempt_started", attempt_data(entry.attempts, self.worker, self._host))\n',
            ),
        ),
        "Intent before effect: no body runs without an event that says that its attempt started.",
    ),
    Mutant(
        "a cancel between the record of the start and the body does not stop the body",
        "calls",
        (
            Change(
                "engine/lifecycle/runner.py",
                "            or call.stopping is not None\n            or tool.options",
                "            or tool.options",
            ),
            Change(
                "engine/executors/loop_lane.py",
                "        if call.stopping is not None:  # the call was stopped in the body's first step\n            stop()\n",
                "",
            ),
        ),
        "Cancels stop work: a body whose call was cancelled is cancelled, and abandoned after its grace.",
    ),
    Mutant(
        "a call whose caller leaves between the record of the start and the body is not run to its end",
        "calls",
        (
            Change(
                "engine/lifecycle/running.py",
                "        if call.ready and not call.ending:\n            self.run_in_own_task(call)\n",
                "",
            ),
        ),
        "Everything ends: a call whose caller was cancelled ends as cancelled, and its slot returns.",
        aim="callers leave",
    ),
    Mutant(
        "a tool that may not be repeated is retried after a timeout",
        "calls",
        (
            Change(
                "engine/call/attempts.py",
                "if attempt.is_repeatable if attempt.stopped else attempt.is_transient:",
                "if attempt.stopped or attempt.is_transient:",
            ),
        ),
        "No silent repeats: an attempt that was stopped may have had its effect, so only a repeatable tool is tried again.",
    ),
    Mutant(
        "only the first attempt has a time limit",
        "calls",
        (
            Change(
                "engine/executors/clocks.py",
                "        if timeout is not None:\n            self.limit(call, timeout)",
                "        if timeout is not None and call.entry.attempts <= 1:\n            self.limit(call, timeout)",
            ),
        ),
        "Timeouts stop work: every attempt has the tool's timeout.",
    ),
    Mutant(
        "the idle timer is not set again after a report",
        "calls",
        (
            Change(
                "engine/executors/clocks.py",
                "        else:\n            self._timer = self._clock.call_later(left, self._look)\n",
                "",
            ),
        ),
        "Timeouts stop work: a body that falls silent is stopped after idle_timeout, also if it reported something before.",
    ),
    Mutant(
        "an earlier time limit waits for a later one that was set before it",
        "calls",
        (
            Change(
                "engine/executors/deadlines.py",
                "if self._timer is None or self._order[0] == number:",
                "if self._timer is None:",
            ),
        ),
        "Timeouts stop work: an attempt ends at its own time limit, whatever other attempts run.",
    ),
    Mutant(
        "a body in its own task that ignores a cancel is never abandoned",
        "calls",
        (
            Change(
                "engine/executors/loop_lane.py",
                "                cancel_wait(attempt)\n            self._clocks.start_grace(call, self._abandon, call)\n",
                "                cancel_wait(attempt)\n                self._clocks.start_grace(call, self._abandon, call)\n",
            ),
        ),
        "A call that is cancelled or times out ends within the grace, also if its body does not stop.",
    ),
    Mutant(
        "the deadline of a call is lost when it is taken over",
        "calls",
        (
            Change(
                "engine/recovery/recovery.py",
                "            self._timers.deadline(call, max(left, 0.0))\n        if record.waiting_for",
                "        if record.waiting_for",
            ),
        ),
        "A deadline bounds the whole call, in whichever process it runs.",
    ),
    Mutant(
        "the time limit of the wait for a credential is lost when the call is taken over",
        "calls",
        (
            Change(
                "engine/lifecycle/credential_waits.py",
                "        if left is not None:\n            self._timers.wait(call, left, ",
                "        if left is not None and before is None:\n            self._timers.wait(call, left, ",
            ),
        ),
        "A call waits for a credential for credential_timeout at most, also across restarts.",
    ),
    Mutant(
        "what is staged keeps its numbers when another process wrote in between",
        "calls",
        (
            Change(
                "engine/journal/journal.py",
                "        if entry.rows:\n            entry.rows = entry.rows.renumbered(by)\n        entry.seq += by\n",
                "        entry.seq += by\n",
            ),
        ),
        "Gap-free events: the numbers of a call's events have no hole and no number twice.",
    ),
    Mutant(
        "a unit whose answer was lost is written a second time",
        "calls",
        (Change("engine/journal/rebase.py", "    if written is not None:\n", "    if written:\n"),),
        "One outcome: a unit that was written, and whose answer was lost, is not written again.",
    ),
    Mutant(
        "after an outage a refused append counts as written",
        "calls",
        (
            Change(
                "engine/journal/journal.py",
                "                entry.inflight = change\n                self._on_appended(change, failure)\n",
                "                entry.inflight = change\n"
                "                self._on_appended(change, None if isinstance(failure, Stale) else failure)\n",
            ),
        ),
        "Durable before visible: a refusal after a retry may mean another writer, not that the first try was written.",
    ),
    Mutant(
        "a signal that arrives with a lost answer is forgotten",
        "calls",
        (
            Change(
                "engine/journal/journal.py",
                "        if foreign and self._on_signal is not None:",
                "        if foreign and not is_written and self._on_signal is not None:",
            ),
        ),
        "A cancel or a decision that was acknowledged is applied by the call's owner.",
        aim="lost answers",
    ),
    Mutant(
        "a cancel while the tool's check is asked is overlooked",
        "calls",
        (
            Change(
                "engine/recovery/recovery.py",
                "        if record.cancel_requested:\n            self._end_cancelled(call, record)\n            return\n",
                "",
            ),
        ),
        "A call with a cancel on record is not started again.",
        aim="cancelled in doubt",
    ),
    Mutant(
        "closing hands a running call back to run again although it may not be repeated",
        "calls",
        (
            Change(
                "engine/lifecycle/handover.py",
                "if verdict is AfterDoubt.END_UNKNOWN:",
                'if verdict is AfterDoubt.END_UNKNOWN and call.required_tool().options.recovery != "auto":',
            ),
        ),
        "No silent repeats: a call that was stopped by a shutdown and may not be repeated ends with outcome_unknown.",
    ),
    Mutant(
        "a call that waits for its time is forgotten if the store does not answer once",
        "calls",
        (
            Change(
                "engine/lifecycle/due_calls.py",
                'not in the store yet: %s", entry.id, error)\n                await sleep(self._clock, _LOOK_AGAIN)\n',
                'not in the store yet: %s", entry.id, error)\n                break\n',
            ),
        ),
        "No silent losses: a call with not_before that was accepted runs when its time has come.",
        aim="put away",
    ),
    Mutant(
        "a reader of another process's call takes events although some before them are missing",
        "calls",
        (
            Change(
                "engine/records/stored_calls.py",
                "        if fresh[0].seq != self.last + 1:\n            return False\n",
                "",
            ),
        ),
        "Gap-free events, for every reader in any process, also if a message was lost.",
    ),
)

_LEASES = (
    Mutant(
        "after a crash every started call runs again",
        "leases",
        (
            Change(
                "engine/recovery/recovery.py",
                "            doubt=doubt_of(options, is_cancelled=record.cancel_requested),\n",
                "            doubt=msgspec.structs.replace(doubt_of(options), may_repeat=options.recovery in ('rerun', 'auto')),\n",
            ),
        ),
        "No silent repeats: a started call without an outcome runs again only if its tool is read_only or idempotent.",
    ),
    Mutant(
        "a call that died while it streamed does not count as started",
        "leases",
        (
            Change(
                "engine/recovery/recovery.py",
                "            was_started=entry.state in _STARTED,\n",
                "            was_started=entry.state is State.RUNNING,\n",
            ),
        ),
        "After a crash a call that had started is rerun, asked about or ended as unknown; none is left as it is.",
    ),
    Mutant(
        "a cancel on record is overlooked by the process that takes a started call over",
        "leases",
        (
            Change(
                "engine/call/claimed.py",
                "is_cancelled = call.is_cancelled and not call.ends_calls",
                "is_cancelled = call.is_cancelled and not call.ends_calls and not call.was_started",
            ),
        ),
        "A cancel that was acknowledged ends the call, also if its owner died before it read it.",
    ),
    Mutant(
        "a take-over forgets the retries that were used",
        "leases",
        (Change("engine/recovery/recovery.py", "retries=retries_of(call)", "retries=0"),),
        "A call is retried at most max_retries times, counted over all processes.",
    ),
    Mutant(
        "deaths of a call's workers are not added up",
        "leases",
        (Change("engine/records/attempt_history.py", "                before += 1\n", "                before = 1\n"),),
        "Poison calls, whose worker dies every time, are quarantined after 5 claims.",
    ),
    Mutant(
        "the journal rebases onto a call that another process owns",
        "leases",
        (
            Change(
                "engine/journal/journal.py",
                "        if stored is None or stored.fence != entry.fence:\n",
                "        if stored is None:\n",
            ),
        ),
        "A former owner learns that it lost the call: its outcome becomes a late result, its waiters follow the store.",
    ),
    Mutant(
        "an owner takes another process's signal for the loss of its call",
        "leases",
        (
            Change(
                "engine/journal/journal.py",
                "        if stored is None or stored.fence != entry.fence:\n",
                "        if stored is None or stored.fence != entry.fence or stored.events[-1].seq > change.expect:\n",
            ),
        ),
        "A signal of another process does not change the owner: the owner writes the outcome behind it.",
        aim="lost answers; claimed at once",
    ),
    Mutant(
        "a claim that was refused is tried again",
        "leases",
        (
            Change(
                "engine/journal/journal.py",
                "        if change.claim and not is_written:",
                "        if change.claim and not is_written and entry.fenced:",
            ),
        ),
        "A call that two workers are offered is started by one of them.",
        aim="claimed at once",
    ),
    Mutant(
        "a claim does not raise the fence in SQLite",
        "leases",
        (Change("stores/sqlite/owners.py", "        stored.fence += 1\n", ""),),
        "The store refuses writes of a former owner, because each claim raises the fence.",
        aim="fences",
    ),
    Mutant(
        "SQLite lets a call be claimed from an owner that lives",
        "leases",
        (
            Change(
                "stores/sqlite/owners.py",
                "[stored for stored in found if stored.owner in free]",
                "[stored for stored in found if stored.owner != mine]",
            ),
        ),
        "A call is claimed only if it has no owner, or a dead one.",
    ),
    Mutant(
        "calls that were claimed by a lost answer are never released",
        "leases",
        (
            Change(
                "engine/recovery/chores.py", "        self._strays = strays - lost\n", "        self._strays = lost\n"
            ),
        ),
        "No silent losses: a call that the store says is ours, and that no part of the process tracks, is released.",
    ),
    Mutant(
        "a process that lost a waiting call keeps it",
        "leases",
        (
            Change(
                "engine/recovery/chores.py", "        self._lost = lost\n", "        self._lost = lost & self._lost\n"
            ),
        ),
        "Waiters of a call that another process took over read its outcome from the store.",
    ),
    Mutant(
        "waiters of a call that its own process claims anew are forgotten",
        "leases",
        (Change("engine/recovery/recovery.py", "            self._ending.answer(old, lost)\n", ""),),
        "Every waiter gets the outcome of its call, also after a pause longer than the lease.",
        aim="back and forth",
    ),
    Mutant(
        "waiting calls are claimed only when a message comes",
        "leases",
        (
            Change("engine/recovery/chores.py", "        self._claimer.nudge_now_and_then()\n", ""),
            Change(
                "engine/recovery/recovery.py",
                "        await self._core.claimer.claim()\n        return report\n",
                "        return report\n",
            ),
        ),
        "The bus is lossy: a call that waits for a process is found in the store without one.",
        aim="nobody claims",
    ),
    Mutant(
        "the deadline of a call that waits for a worker is lost",
        "leases",
        (
            Change(
                "engine/lifecycle/handover.py", "for limit in (call.request.deadline, asks):", "for limit in (asks,):"
            ),
        ),
        "A deadline bounds the whole call, also while no process has claimed it.",
        aim="nobody claims",
    ),
)

_PEOPLE = (
    Mutant(
        "of two decisions at once both count as taken",
        "people",
        (
            Change(
                "engine/call/foreign.py",
                'return asked is not None and question in ("", asked)',
                'return asked is None or question in ("", asked)',
            ),
        ),
        "Of two decisions at the same time the first one counts, and the second is told so.",
    ),
    Mutant(
        "a decision on an earlier question answers a later one",
        "people",
        (
            Change(
                "engine/call/foreign.py",
                'return asked is not None and question in ("", asked)',
                "return asked is not None",
            ),
        ),
        "A decision answers the question that the person saw, and no other.",
    ),
    Mutant(
        "an approval times out although the decision is on record",
        "people",
        (
            Change(
                "engine/lifecycle/stopping.py",
                "        if call.entry.waiting_for is None:\n            self.stop(call, reason)\n",
                '        if call.entry.waiting_for is None or reason == "approval":\n            self.stop(call, reason)\n',
            ),
        ),
        "A decision that was acknowledged in time wins over the timer of the approval.",
    ),
    Mutant(
        "the time limit of an approval is lost when the call is taken over",
        "people",
        (
            Change(
                "engine/recovery/recovery.py",
                "self._approvals.wait_on(call, None if wait is None else max(wait, 0.0))",
                "self._approvals.wait_on(call, None)",
            ),
        ),
        "A call waits for a person as long as the question says, also across restarts.",
    ),
    Mutant(
        "a denial that came while no process had the call is overlooked",
        "people",
        (
            Change(
                "engine/records/attempt_history.py",
                'and (given.get("approved") is not True or given.get("responded") is True)',
                'and given.get("responded") is True',
            ),
        ),
        "A call that a person denied does not run.",
    ),
    Mutant(
        "the first arguments are in force again after a restart",
        "people",
        (
            Change(
                "engine/records/arguments.py",
                "    if decision is not None:\n        arguments = _edited_in(",
                "    if decision is not None and known is not None:\n        arguments = _edited_in(",
            ),
        ),
        "A call that was approved with other arguments runs with those, in any process.",
    ),
    Mutant(
        "two processes use the last use of a grant",
        "people",
        (
            Change(
                "engine/people/grants.py",
                "body, document.version):\n                    self._audit.jot(",
                "body, None):\n                    self._audit.jot(",
            ),
        ),
        "A grant lets no more calls run than it says, however many processes use it.",
    ),
    Mutant(
        "an answer that crosses with the end of its time is applied beside it",
        "people",
        (
            Change(
                "engine/lifecycle/approvals.py",
                'if call.ending or entry.waiting_for != "approval" or read(',
                "if call.ending or read(",
            ),
            Change(
                "engine/lifecycle/stopping.py",
                '                self._journal.record(call.entry, "note", closed)\n',
                "",
            ),
        ),
        "A question gets one answer, and the call goes on once. Both layers are off: the note that closes the wait before its end "
        "is written, and the look at whether the call still waits. With the note alone no decision can be written after the wait.",
        aim="answers cross",
    ),
    Mutant(
        "a grant that was revoked lets calls run",
        "people",
        (
            Change(
                "model/grant.py",
                '        if self.revoked_at is not None:\n            return "revoked"\n        if self.uses',
                "        if self.uses",
            ),
        ),
        "From the moment at which its revoke is acknowledged a grant lets no call run, in any process.",
    ),
    Mutant(
        "a grant counts whose approval was never written",
        "people",
        (
            Change(
                "engine/people/grants.py",
                "        if stored.confirmed:\n            return True\n",
                "        return True\n",
            ),
        ),
        "A grant counts once the approval that it is given with is on record.",
        aim="grants",
    ),
    Mutant(
        "a grant for some arguments lets calls with others run",
        "people",
        (
            Change(
                "engine/people/grants.py",
                "            if requesters & set(stored.identities) or not fit_schema(\n"
                "                stored.grant.arguments, arguments, tool.input_schema\n            ):\n",
                "            if requesters & set(stored.identities):\n",
            ),
        ),
        "A grant lets those calls run that it names.",
    ),
    Mutant(
        "the answer to a first question answers the second one, too",
        "people",
        (
            Change(
                "engine/executors/inputs.py",
                "            asked = question is not None and question.key == key\n",
                "            asked = question is not None\n",
            ),
        ),
        "A tool that asks two questions gets the answer to each.",
    ),
)

_EXTERNAL = (
    Mutant(
        "a result from outside is acknowledged after the wait was closed",
        "external",
        (
            Change(
                "engine/actions/external_results.py",
                "        closed = token_closed(events)\n",
                "        closed = None\n",
            ),
        ),
        "A result from outside that was acknowledged is the outcome; one that comes after the wait was closed is refused.",
        aim="closed waits; results cross",
    ),
    Mutant(
        "the token of an earlier attempt ends a later one",
        "external",
        (
            Change(
                "engine/actions/external_results.py",
                'if token is not None and (issued.get("attempt") != attempts or not fits(token, str(issued["hash"]))):',
                'if token is not None and issued.get("attempt") != attempts:',
            ),
        ),
        "A token belongs to one attempt of one call.",
        aim="tokens",
    ),
    Mutant(
        "a result that comes before its body has returned is lost",
        "external",
        (
            Change(
                "engine/lifecycle/external.py",
                "        if error is None:  # a result may have come while the body ran\n"
                "            self._take_report(call, call.entry.events)\n",
                "        if error is not None:\n            self._ending.on_created(call, error)\n",
            ),
        ),
        "A result from outside that was acknowledged is the outcome, also if it comes while the body still runs.",
        aim="results cross; closed waits",
    ),
    Mutant(
        "the time limit of the wait for a result is lost when the call is taken over",
        "external",
        (
            Change(
                "engine/lifecycle/external.py",
                "attempt_of(call).wait = _Wait(began_at, None if left is None else now + left, options.idle_timeout, now)",
                "attempt_of(call).wait = _Wait(began_at, None, options.idle_timeout, now)",
            ),
        ),
        "A call waits for a result from outside for its timeout at most, also across restarts.",
    ),
)

_CACHE = (
    Mutant(
        "a cached result is served to another caller",
        "cache",
        (
            Change(
                "engine/cache/caching.py",
                "call.arguments, call.caller, call.thread if by_thread else None, window]",
                "call.arguments, *((call.caller, call.thread) if by_thread else (None, None)), window]",
            ),
        ),
        "A cached result belongs to one caller.",
    ),
    Mutant(
        "followers of a leader that failed wait for ever",
        "cache",
        (
            Change(
                "engine/cache/single_flight.py",
                "        else:\n            for follower in followers:\n"
                "                self._run(follower)\n        if self._cache",
                "        if self._cache",
            ),
        ),
        "Failures are never shared: if the leader fails, each of its equals runs by itself.",
        aim="equal calls",
    ),
    Mutant(
        "a leader that fails keeps its lead over all processes",
        "cache",
        (
            Change(
                "engine/cache/single_flight.py",
                "        if call.flight is not None:\n            self._slots.give(call.flight)\n",
                "        if call.flight is not None and call.outcome is State.COMPLETED:\n            self._slots.give(call.flight)\n",
            ),
        ),
        "Slots return: when a leader has ended, an equal call of any process can lead.",
    ),
    Mutant(
        "the lead is kept when the result turns out to be there",
        "cache",
        (
            Change(
                "engine/cache/single_flight.py",
                "            if leads:\n                self._slots.give(name)\n            if self._leads",
                "            if self._leads",
            ),
        ),
        "Slots return: a lead that is not needed, because another process has stored the result, is given back.",
    ),
)

_SLOTS = (
    Mutant(
        "a call keeps its slot while it waits for a result from outside",
        "slots",
        (
            Change(
                "engine/lifecycle/external.py",
                "        self._journal.commit(entry, partial(self._on_waiting, call))\n        self._gate.release(call)\n",
                "        self._journal.commit(entry, partial(self._on_waiting, call))\n",
            ),
        ),
        "A call that waits for something outside holds no slot.",
        aim="waits hold nothing",
    ),
    Mutant(
        "a call keeps its slot while it waits for a person or a credential",
        "slots",
        (
            Change(
                "engine/lifecycle/parking.py",
                '        self._gate.release(call)\n        if reason == "credential":\n',
                '        if reason == "credential":\n',
            ),
        ),
        "A call that waits for a person's answer, a credential or its tool's check holds no slot.",
        aim="waits hold nothing",
    ),
    Mutant(
        "an abandoned body that returns does not give its shared slot back",
        "slots",
        (
            Change(
                "engine/lifecycle/running.py",
                "        returned(call)\n        self._gate.release(call)\n",
                "        returned(call)\n        self._limiter.release(call)\n",
            ),
        ),
        "Slots return: that of an abandoned body when the body has returned.",
    ),
    Mutant(
        "a shared slot that was given back still counts as held by its call",
        "slots",
        (
            Change(
                "engine/slots/gate.py",
                "            call.shared_slot = False\n            self._slots.give(_name(call))\n",
                "            self._slots.give(_name(call))\n",
            ),
        ),
        "No more calls of a tool run at once, in all processes, than its max_concurrency; a slot is given back once.",
        aim="rates in quiet; rates",
    ),
    Mutant(
        "two calls of one process take one shared slot",
        "slots",
        (
            Change(
                "engine/slots/shared_slots.py",
                "        async with self._alone(name):\n            wanted = self._held.get(name, 0) + 1\n",
                "        wanted = self._held.get(name, 0) + 1\n        async with self._alone(name):\n",
            ),
        ),
        "No more calls of a tool run at once, in all processes, than its max_concurrency.",
    ),
    Mutant(
        "a shared slot that was granted by a lost answer is never given back",
        "slots",
        (
            Change(
                "engine/slots/shared_slots.py",
                "                self._spawn(self._report(name))\n                raise\n",
                "                raise\n",
            ),
        ),
        "Slots return: one that the store granted, and whose answer was lost, is not lost to all processes.",
    ),
    Mutant(
        "calls start without a token of their tool's rate while the store does not answer",
        "slots",
        (
            Change(
                "engine/slots/gate.py",
                "            granted = False\n",
                "            granted = call.token = limit is None\n",
            ),
        ),
        "A tool's rate holds for all processes over the store together, also during an outage.",
        aim="rates",
    ),
    Mutant(
        "a call that was put back into the queue is not tried again in time",
        "slots",
        (
            Change(
                "engine/slots/gate.py",
                "            self._clock.call_later(wait, self._try_again, key[0], tool.name)\n",
                "",
            ),
        ),
        "A call that waits for its tool's rate or for other processes' slots starts when there is room.",
        aim="rates in quiet; short waits",
    ),
    Mutant(
        "each offer of a slot begins the time in the queue anew",
        "slots",
        (
            Change(
                "engine/lifecycle/running.py",
                "        if len(call.plan.needs) > 1 and not self._gate.admits(call):  # there are limits beside the runtime's\n"
                "            return\n"
                "        if call.wait_timer is not None:\n            self._timers.end_wait(call)\n",
                "        if call.wait_timer is not None:\n            self._timers.end_wait(call)\n"
                "        if len(call.plan.needs) > 1 and not self._gate.admits(call):  # there are limits beside the runtime's\n"
                "            return\n",
            ),
        ),
        "A call waits in the queue for queue_timeout at most.",
        aim="short waits",
    ),
    Mutant(
        "a full queue refuses a call that exists",
        "slots",
        (
            Change(
                "engine/lifecycle/running.py",
                "taken = self._limiter.take(call, entry.durable > 0)",
                "taken = self._limiter.take(call)",
            ),
        ),
        "A call that was accepted always gets a place in the queue, also when it is approved or taken over later.",
        aim="full queues",
    ),
    Mutant(
        "each process has its own bucket for a tool's rate in SQLite",
        "slots",
        (
            Change(
                "stores/sqlite/store.py",
                "queues.take(c, name, rate, burst, count)",
                'queues.take(c, f"{name}:{self._owner}", rate, burst, count)',
            ),
        ),
        "A tool's rate holds for all processes over the store together.",
        aim="rates in quiet",
    ),
    Mutant(
        "slots of dead processes stay taken in SQLite",
        "slots",
        (
            Change(
                "stores/sqlite/owners.py",
                '    connection.execute(f"DELETE FROM slots WHERE owner IN ({marks})", dead)  # noqa: S608  # question marks\n',
                "",
            ),
        ),
        "Slots return: those of a dead process are free when its calls are taken over.",
    ),
)

_SCHEDULES = (
    Mutant(
        "the call of a due time gets a new id each time it is made",
        "schedules",
        (
            Change(
                "runtime/schedules/scheduler.py",
                "        id=call_id(schedule.name, due),\n",
                "",
            ),
        ),
        "A due time is one call, also if two processes make it, or one makes it again after a crash.",
    ),
    Mutant(
        "a due time whose call the store did not take is given up",
        "schedules",
        (
            Change(
                "runtime/schedules/scheduler.py",
                'its call is tried again: %s", schedule.name, error)\n                return None\n',
                'its call is tried again: %s", schedule.name, error)\n                continue\n',
            ),
        ),
        "A due time that was decided to run has a call, also after an outage or a full queue.",
        aim="firing",
    ),
    Mutant(
        "what a dead process was about to fire is not looked for",
        "schedules",
        (
            Change(
                "runtime/schedules/scheduler.py",
                "        if stored.firing:\n            return True\n        now = self._clock.now()\n",
                "        now = self._clock.now()\n",
            ),
        ),
        "A process that dies between two commits of a firing leaves a document from which any other continues at once.",
        aim="firing",
    ),
    Mutant(
        "a due time runs beside the call before it, whatever overlap says",
        "schedules",
        (
            Change(
                "runtime/schedules/decision.py",
                "        occupied = busy or firing or waiting\n",
                "        occupied = firing or waiting\n",
            ),
        ),
        "With overlap skip or queue a due time does not run while the call of an earlier one has not ended.",
    ),
    Mutant(
        "missed times run although catch_up says none",
        "schedules",
        (Change("runtime/schedules/decision.py", "    return on_time, missed\n", "    return times, []\n"),),
        "With catch_up none no missed time runs, with last only the last one.",
    ),
    Mutant(
        "times that were missed are not on record",
        "schedules",
        (
            Change(
                "runtime/schedules/decision.py",
                '        log.append(Firing(due=missed[0], until=missed[-1], outcome="missed", at=now, count=len(missed), reason=reason))\n',
                "",
            ),
        ),
        "No silent skip: a due time has a call, or is on record as skipped or missed.",
    ),
)

_SPEND = (
    Mutant(
        "the reservation of a dead process is released as if nothing was spent",
        "spend",
        (
            Change(
                "engine/spend/book.py",
                "                books.put(id, _assumed(hold))\n",
                "                books.put(id, None)\n",
            ),
        ),
        "What a dead process reserved counts as spent, because the model may have been asked.",
    ),
    Mutant(
        "an entry that is counted a second time is charged to the budgets again",
        "spend",
        (
            Change(
                "engine/spend/accounts.py",
                "        counted = None if was_reserved else before\n",
                "        counted = None\n",
            ),
        ),
        "An entry has one id and counts once: the accounts are what the ledger is, also after a take-over.",
    ),
    Mutant(
        "a reservation whose answer was lost is never released",
        "spend",
        (
            Change(
                "engine/spend/book.py",
                "            self._spawn(self._surely(lambda: self._release(id, page, tuple(charged))))\n            raise\n",
                "            raise\n",
            ),
        ),
        "Reservations return: one of a request that was never sent does not block the budget.",
    ),
    Mutant(
        "the reservation of a request that the model refused is kept",
        "spend",
        (
            Change(
                "agents/model_step.py",
                "            if held is not None:\n                await turn.spending.release(held)\n            raise\n",
                "            raise\n",
            ),
        ),
        "Reservations return: one of a request that failed does not block the budget.",
    ),
    Mutant(
        "a request that was stopped under way costs nothing",
        "spend",
        (
            Change(
                "agents/model_step.py",
                "                turn.spending.assume(held)\n",
                "                await turn.spending.release(held)\n",
            ),
        ),
        "What was reserved for a request counts as spent if it is unknown whether the model was asked.",
    ),
    Mutant(
        "a reply on record whose cost was not written before the crash is not counted",
        "spend",
        (
            Change(
                "agents/model_step.py",
                "            await count_replayed(turn)\n            return known\n",
                "            return known\n",
            ),
        ),
        "The ledger has each reply that is on record, with its real amount.",
        aim="spending",
    ),
    Mutant(
        "the cost that a dead process's call reported is not counted",
        "spend",
        (
            Change(
                "engine/records/tool_costs.py",
                "        if cost_in(call.entry.events) is not None:\n            self.report(call)\n",
                "        if call in self._newer:\n            self.report(call)\n",
            ),
        ),
        "A cost that is an event of its call reaches the ledger before the call completes.",
        aim="costs",
    ),
    Mutant(
        "a reservation does not look at what others have reserved",
        "spend",
        (
            Change(
                "engine/spend/reserving.py",
                "        if not fits(books.accounts[account], budget, nano, hold.tokens)\n",
                "        if not fits(books.accounts[account], budget, nano, hold.tokens, reserved=False)\n",
            ),
        ),
        "What is spent and reserved never passes the limit of a budget that stops, however many runs reserve at once.",
        aim="spending",
    ),
    Mutant(
        "a raise of a budget that runs again is added again",
        "spend",
        (
            Change(
                "engine/spend/book.py",
                "            found.raises.setdefault(call_id, Raise(title, nano, tokens))\n",
                '            found.raises[f"{call_id} {len(found.raises)}"] = Raise(title, nano, tokens)\n',
            ),
        ),
        "An approved raise is added to its budget once, also if its call runs again after a crash.",
        aim="raises",
    ),
    Mutant(
        "the cost of a second attempt is added to that of the first",
        "spend",
        (
            Change(
                "tools/context.py",
                'cost_note(usd, tokens, f"#{self._costs}" if key is None else key)',
                'cost_note(usd, tokens, f"#{self.attempt}.{self._costs}" if key is None else key)',
            ),
        ),
        "A call that is tried again is counted once: what an attempt reports replaces what the one before it did.",
    ),
    Mutant(
        "a call completes before the ledger has its cost",
        "spend",
        (
            Change(
                "engine/records/tool_costs.py",
                "            self.writing[call] = asyncio.get_running_loop().create_future()\n",
                "            self.writing[call] = asyncio.get_running_loop().create_future()\n"
                "            self.writing[call].set_result(None)\n",
            ),
        ),
        "The ledger has what a call has cost before the call completes, also if its process dies just then.",
        aim="costs",
    ),
)

_AGENTS = (
    Mutant(
        "a resumed turn asks the model again for an answer that is on record",
        "agents",
        (
            Change(
                "agents/model_step.py",
                "        if known is not None:\n            await count_replayed",
                "        if known is not None and known.uses:\n            await count_replayed",
            ),
        ),
        "A resumed turn reads what is on record and decides nothing again.",
    ),
    Mutant(
        "tool calls are made before the reply that asks for them is on its way to the store",
        "agents",
        (
            Change(
                "agents/tool_step.py",
                "        sending = self.turn.sent()\n        if sending is not None:\n            await sending\n",
                "",
            ),
        ),
        "What a tool sees is ordered after the entry that leads to it: no call is durable before its reply.",
        aim="turns; lost turns",
    ),
    Mutant(
        "the last results of a batch of tool calls are not recorded",
        "agents",
        (
            Change(
                "agents/tool_step.py",
                "            if left:  # else all calls have ended, and `run` records their results together\n"
                "                self.recorded.update(ended)\n",
                "            self.recorded.update(ended)\n"
                "            if left:  # else all calls have ended, and `run` records their results together\n",
            ),
        ),
        "Each tool call of a turn has one recorded result.",
        aim="turns; batches",
    ),
    Mutant(
        "of several recorded parts of a step's results only the last one is read",
        "agents",
        (
            Change(
                "agents/turn_record.py",
                "branch.results[entry.step].append(entry)",
                "branch.results[entry.step] = [entry]",
            ),
        ),
        "Each tool call of a turn has one recorded result, and a resumed turn records none again.",
    ),
    Mutant(
        "a resumed turn reads results of background calls a second time",
        "agents",
        (
            Change(
                "agents/turn.py",
                "return {} if self._replay.replies else self.open_calls.among(self.messages)",
                "return self.open_calls.among(self.messages)",
            ),
        ),
        "A resumed turn shows the model what it saw before, each result of a background call once.",
        aim="background",
    ),
    Mutant(
        "a stop that came while no process ran the turn does not keep it from asking the model",
        "agents",
        (
            Change(
                "agents/model_step.py",
                "        if turn.must_stop:\n            turn.give_in()\n        request",
                "        request",
            ),
        ),
        "A turn with a stop on record asks no model again.",
        aim="stops",
    ),
    Mutant(
        "a process that lost a turn writes its end into the thread",
        "agents",
        (
            Change(
                "agents/turn_lifecycle.py",
                "        turn.leave_if_lost()  # only the turn's owner writes the memory\n",
                "",
            ),
        ),
        "Only the turn's owner writes the thread's memory.",
        aim="lost turns",
    ),
    Mutant(
        "a turn's id is written after its number",
        "agents",
        (
            Change(
                "agents/memory.py",
                "        for id in filter(None, (kept.id, *kept.heard)):\n"
                "            await host.records.put_document(ID, _id_key(key, id), _encode(kept.turn), 0)\n"
                "        for _ in range(_ATTEMPTS):\n",
                "        for _ in range(_ATTEMPTS):\n",
            ),
            Change(
                "agents/memory.py",
                "                self._follow(key, head, new, version, kept)\n",
                "                self._follow(key, head, new, version, kept)\n"
                "                for id in filter(None, (kept.id, *kept.heard)):\n"
                "                    await host.records.put_document(ID, _id_key(key, id), _encode(kept.turn), 0)\n",
            ),
        ),
        "One turn for one id and thread: a message that is sent again under its id begins no second turn.",
        aim="turns; ends of turns",
    ),
    Mutant(
        "a sub-agent that could not be followed to its end counts as ended",
        "agents",
        (
            Change(
                "agents/subagents.py",
                "        if view.state is AgentState.RUNNING:  # the store failed",
                "        if view.state is AgentState.IDLE and not view.turns:  # the store failed",
            ),
        ),
        "The result of an agent that is a tool is the answer of its turn.",
        aim="outages of plans",
    ),
    Mutant(
        "cancelling the call of a sub-agent leaves its turn running",
        "agents",
        (
            Change(
                "agents/subagents.py",
                "            if not _goes_on(log):\n",
                "            if False:\n",
            ),
        ),
        "Stopping a turn stops the turns of the agents that it called.",
    ),
    Mutant(
        "a step of a plan runs although a step that it depends on was blocked",
        "agents",
        (
            Change(
                "agents/plan.py",
                "all(self.steps[need - 1].status is PlanStep.COMPLETED for need in step.depends_on)",
                "all(self.steps[need - 1].status is not PlanStep.NOT_STARTED for need in step.depends_on)",
            ),
        ),
        "A step of a plan runs once all steps that it depends on are completed.",
    ),
    Mutant(
        "an outage of the store blocks a step of a plan",
        "agents",
        (
            Change(
                "agents/plan_execute.py",
                "                except StoreUnavailable:  # the whole turn waits for the store, and goes on from its entries\n"
                "                    raise\n",
                "",
            ),
        ),
        "A store that does not answer for a while ends no turn and fails no step.",
        aim="outages of plans",
    ),
    Mutant(
        "a background call that failed is never read",
        "agents",
        (
            Change(
                "agents/tool_step.py",
                "            elif record.state.is_terminal:\n                result = await after_call(",
                "            elif record.state is _COMPLETED:\n                result = await after_call(",
            ),
        ),
        "Each background call's result enters the conversation once, also that of one that failed.",
        aim="background in quiet",
    ),
    Mutant(
        "a message over HTTP that is sent again begins another turn",
        "agents",
        (
            Change(
                "server/agents.py",
                "turn = await agent.begin(asked, thread=thread, turn=number, id=message.id, **options)",
                "turn = await agent.begin(asked, thread=thread, turn=number, **options)",
            ),
        ),
        "A thread has one turn for one id, wherever the message is sent again.",
    ),
    Mutant(
        "the stop of a turn leaves its tool calls running",
        "agents",
        (
            Change(
                "agents/tool_step.py",
                "            if self.wanted and turn.must_stop:\n"
                "                await turn.end_calls([turn.call_id(number, use) for number, use in self.wanted])\n",
                "            if self.wanted and turn.must_stop:\n",
            ),
        ),
        "A turn that was stopped leaves no call of it behind that runs or waits for a person.",
        aim="stops",
    ),
)

_WEBHOOKS = (
    Mutant(
        "a retry of a webhook has a new id",
        "webhooks",
        (
            Change(
                "telemetry/webhooks/delivery.py",
                "self._sender.send(endpoint, notice.id, at, body)",
                'self._sender.send(endpoint, f"{notice.id}_{notice.tries}" if notice.tries else notice.id, at, body)',
            ),
        ),
        "A webhook arrives with one id, however often it is sent.",
    ),
    Mutant(
        "a webhook that a dead process had claimed is never sent",
        "webhooks",
        (
            Change(
                "telemetry/webhooks/outbox.py",
                "        if stored is None or (stored.notice.next_at or 0.0) > now:\n            return None\n",
                "        if stored is None or stored.claimed_by or (stored.notice.next_at or 0.0) > now:\n            return None\n",
            ),
        ),
        "A webhook is durable and retried: the claim of a dead process ends, and another one sends it.",
    ),
)

_STORE = (
    Mutant(
        "SQLite does not compare the fence",
        "store",
        (
            Change(
                "stores/sqlite/appends.py",
                'waiting_for=?,signal=0 "\n    "WHERE key=? AND seq=? AND fence=?',
                'waiting_for=?,signal=0 "\n    "WHERE key=? AND seq=? AND fence>=?',
            ),
            Change(
                "stores/sqlite/appends.py",
                'last_unit_seq=?,code=? "\n    "WHERE key=? AND seq=? AND fence=?',
                'last_unit_seq=?,code=? "\n    "WHERE key=? AND seq=? AND fence>=?',
            ),
        ),
        "One outcome: the store refuses appends with an older fence, so a former owner cannot write.",
        aim="fences",
    ),
    Mutant(
        "a refused row of a group counts as written in SQLite",
        "store",
        (
            Change(
                "stores/sqlite/appends.py",
                "        if self._changes() == 0:\n            return Duplicate",
                "        if self._changes() < 0:\n            return Duplicate",
            ),
            Change(
                "stores/sqlite/appends.py",
                "            if self._changes() == 0:\n                return Stale",
                "            if self._changes() < 0:\n                return Stale",
            ),
        ),
        "Same id, same call, and durable before visible: a row that the store refused is not acknowledged.",
    ),
    Mutant(
        "SQLite writes documents over newer versions",
        "store",
        (
            Change(
                "stores/sqlite/records.py",
                "(write.kind, write.key)).get or 0) != write.expect:",
                "(write.kind, write.key)).get or 0) < write.expect:",
            ),
            Change(
                "stores/sqlite/records.py",
                'WHERE kind = ? AND key = ? AND version = ?"',
                'WHERE kind = ? AND key = ? AND version >= ?"',
            ),
        ),
        "Documents are changed by compare-and-set: of two writers over one version one succeeds.",
    ),
    Mutant(
        "durability power does not wait for the disk",
        "store",
        (
            Change(
                "stores/sqlite/store.py",
                'synchronous="FULL" if power else "NORMAL"',
                'synchronous="NORMAL"',
            ),
        ),
        'durability="power" survives power loss: what was acknowledged is on the disk.',
    ),
    Mutant(
        "a group of writes with a refused one leaves its transaction open in SQLite",
        "store",
        (
            Change(
                "stores/sqlite/writer.py",
                "            self._roll_back()\n            if len(group) > 1",
                "            if len(group) > 1",
            ),
        ),
        "One refused append, such as that of a former owner, does not keep the others from being written.",
    ),
    Mutant(
        "a write that the disk failed counts as written in SQLite",
        "store",
        (
            Change(
                "stores/sqlite/writer.py",
                "        failure = unavailable(self.path, error)\n        if isinstance(error, apsw.IOError",
                "        if isinstance(error, apsw.IOError):\n            return None  # type: ignore[return-value]\n"
                "        failure = unavailable(self.path, error)\n        if isinstance(error, apsw.IOError",
            ),
        ),
        "Durable before visible: what the disk refused is not acknowledged.",
    ),
    Mutant(
        "a write that a full disk refused counts as written in SQLite",
        "store",
        (
            Change(
                "stores/sqlite/writer.py",
                "        failure = unavailable(self.path, error)\n        if isinstance(error, apsw.IOError",
                "        if isinstance(error, apsw.FullError):\n            return None  # type: ignore[return-value]\n"
                "        failure = unavailable(self.path, error)\n        if isinstance(error, apsw.IOError",
            ),
        ),
        "Durable before visible: what a full disk refused is not acknowledged.",
    ),
    Mutant(
        "a write on the loop that finds the SQLite file locked is dropped",
        "store",
        (
            Change(
                "stores/sqlite/writer.py",
                "        except apsw.BusyError:\n            return None\n",
                "        except apsw.BusyError:\n            return None if busy else [None] * len(group)\n",
            ),
        ),
        "Durable before visible: a write that another process's lock kept out is made later, in the thread.",
        aim="locks",
    ),
    Mutant(
        "a group that waited in vain for the lock of the SQLite file counts as written",
        "store",
        (
            Change(
                "stores/sqlite/writer.py",
                "            return [failure] * len(group)\n        return outcomes\n",
                "            return [None] * len(group)\n        return outcomes\n",
            ),
        ),
        "Durable before visible: what could not be written for a lock is not acknowledged.",
        aim="locks",
    ),
    Mutant(
        "a write-ahead log whose copy the disk failed to sync is started anew",
        "store",
        (
            Change(
                "stores/sqlite/checkpoint.py",
                "                self._keep_log()\n            raise\n",
                "                pass\n            raise\n",
            ),
        ),
        "What is acknowledged survives power loss: the log is kept until its copy is on the disk.",
    ),
    Mutant(
        "with durability power the log of an earlier process is written on",
        "store",
        (
            Change(
                "stores/sqlite/store.py",
                "                if power:\n                    end_old_log(connection)\n",
                "",
            ),
        ),
        "What is acknowledged survives power loss: nothing is written behind a gap in the log.",
        aim="power",
    ),
    Mutant(
        "an event that a full disk refused is given up",
        "store",
        (
            Change(
                "engine/journal/journal.py",
                "            delay = min(delay * 2, _RETRY_MOST)\n            failure = await self.append(change)\n",
                "            delay = min(delay * 2, _RETRY_MOST)\n            failure = await self.append(change)\n"
                '            if failure is not None and getattr(failure, "lasting", False):\n                break\n',
            ),
        ),
        "Everything ends: the outcome of a call is written again and again until the store takes it.",
    ),
    Mutant(
        "an owner of an earlier boot counts as alive while its lease of then lasts",
        "store",
        (
            Change(
                "stores/liveness.py",
                "process_gone(owner) or of_another_boot or system.uptime()",
                "process_gone(owner) or system.uptime()",
            ),
        ),
        "Everything ends: after a restart of the machine its calls are taken over.",
    ),
    Mutant(
        "an agent's turn tries a full disk five times",
        "agents",
        (
            Change(
                "agents/outages.py",
                "        if error.lasting:\n",
                "        if error.lasting and log.entry.seq < 0:\n",
            ),
        ),
        "A store that is out of order for a while does not end a turn.",
        aim="full disks",
    ),
)

_SERVER = (
    Mutant(
        "a reader over HTTP that comes back misses an event",
        "server",
        (Change("server/events.py", "    return int(text)\n", "    return int(text) + 1\n"),),
        "Gap-free events: a stream that broke goes on after the last event that its reader has.",
    ),
    Mutant(
        "a call is cancelled when its HTTP client leaves, whatever the client said",
        "server",
        (
            Change(
                "server/calls.py",
                "leaving = asyncio.ensure_future(_disconnected(request)) if cancel else None",
                "leaving = asyncio.ensure_future(_disconnected(request))",
            ),
        ),
        "A call outlives the connection over which it was made, unless cancel_on_disconnect says otherwise.",
    ),
    Mutant(
        "a cancel over HTTP is always answered as if it took",
        "server",
        (
            Change(
                "server/calls.py",
                "Cancelled(id=id, thread=handle.thread, cancelled=done, state=state)",
                "Cancelled(id=id, thread=handle.thread, cancelled=True, state=state)",
            ),
        ),
        "A cancel that was acknowledged is on record.",
    ),
    Mutant(
        "a decision over HTTP counts for another question than the one that was seen",
        "server",
        (
            Change(
                "server/approvals.py",
                "            seen=decision.seen,\n",
                "",
            ),
            Change("server/call_lookup.py", "if seen and asked and not seen_ones:", "if seen and not asked:"),
        ),
        "A decision answers the question that the person saw, and no other.",
        aim="people at servers",
    ),
    Mutant(
        "an event that comes while readers of a stream are woken wakes none of them",
        "server",
        (
            Change(
                "server/event_stream.py",
                "        elif self._spent < _SHORT:\n            self._begin()\n",
                "        elif self._spent < _SHORT:\n            self._next, self._notified = None, False\n",
            ),
        ),
        "A reader of a stream gets each event, and the end, without waiting for another one.",
        aim="readers at servers",
    ),
)

_CREDENTIALS = (
    Mutant(
        "a credential that was revoked is still used",
        "credentials",
        (
            Change(
                "safety/credentials/book.py",
                'kept, status="revoked", sealed="", claim=None, reason="it was revoked", updated_at',
                'kept, claim=None, reason="it was revoked", updated_at',
            ),
        ),
        "A credential that was revoked is used by no later call.",
    ),
    Mutant(
        "a credential that another process put is not noticed",
        "credentials",
        (
            Change(
                "engine/lifecycle/credential_waits.py",
                "        if changes != self._seen or now - self._looked_at >= _LOOK_AT_ALL:\n",
                "        if now - self._looked_at >= _LOOK_AT_ALL:\n",
            ),
        ),
        "A call that waits for a credential goes on when it is there, whichever process put it.",
        aim="credentials",
    ),
    Mutant(
        "a call does not get the credential for which it has waited",
        "credentials",
        (
            Change(
                "engine/lifecycle/credential_waits.py",
                "        call.credentials = found\n        if entry.state",
                "        if _last_wait(entry.events) is None:\n            call.credentials = found\n        if entry.state",
            ),
        ),
        "A call that waits for a credential goes on when it is there.",
        aim="credentials",
    ),
)

_RETENTION = (
    Mutant(
        "retention removes calls of a turn whose thread is kept",
        "retention",
        (
            Change(
                "engine/recovery/chores.py",
                "*(() if self.keeps is None else await self.keeps(calls))}",
                "}",
            ),
        ),
        "Calls of an agent's turns live as long as their thread.",
    ),
    Mutant(
        "the outcome of a call that retention removed is not kept",
        "retention",
        (
            Change(
                "engine/recovery/chores.py",
                "        for callback in self.before_removal:\n            await callback(going)\n",
                "        for callback in self.before_removal[1:]:\n            await callback(going)\n",
            ),
        ),
        "A call that is repeated under its id does not run again, long after its events are gone.",
    ),
    Mutant(
        "a call is created although an outcome is kept under its id",
        "retention",
        (
            Change(
                "runtime/runtime.py",
                "in_callers_task=in_callers_task, may_repeat=request.id is not None\n",
                "in_callers_task=in_callers_task, may_repeat=False\n",
            ),
        ),
        "A call that is repeated under its id does not run again, also in the moment in which its events are removed.",
    ),
    Mutant(
        "SQLite does not look for the document that forbids a creation",
        "retention",
        (
            Change(
                "stores/sqlite/appends.py",
                "            _INSERT_UNLESS if unless else _INSERT_CALL,\n"
                "            (*row, call.priority, size, *times, in_row, request_id, code, *unless),\n",
                "            _INSERT_CALL,\n            (*row, call.priority, size, *times, in_row, request_id, code),\n",
            ),
        ),
        "A creation is refused, in the same transaction, if the document is there that it names.",
    ),
    Mutant(
        "retention removes calls after a quarter of their time",
        "retention",
        (
            Change(
                "engine/recovery/chores.py",
                "            since=now - kept.age if since is None else since,\n",
                "            since=now - kept.age / 4 if since is None else since,\n",
            ),
        ),
        "A call that has ended is kept for its time.",
    ),
    Mutant(
        "a worker that drains hands back only what waits at first",
        "leases",
        (
            Change(
                "engine/drive/draining.py",
                "            if len(waiting) == len(ready):\n                return\n",
                "            return\n",
            ),
        ),
        "What waits at a worker that drains goes to other workers.",
        aim="drains",
    ),
)

_MESSAGES = (
    Mutant(
        "a message that is sent again waits a second time",
        "messages",
        (
            Change(
                "agents/mailbox.py",
                "            if await self.was_sent(host, message.thread, message.id, message.text):\n"
                "                return False\n            if len(",
                "            await self.was_sent(host, message.thread, message.id, message.text)\n            if len(",
            ),
            Change(
                "agents/mailbox.py",
                "body=encode(_digest(message.text)), expect=0),\n        ]",
                "body=encode(_digest(message.text)), expect=None),\n        ]",
            ),
        ),
        "A message that is sent again, under its id, is read once. Both layers are off: the look at ids that were sent, and the write that "
        "is refused if the id is there.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a message that a turn is about to take can still be taken back",
        "messages",
        (
            Change(
                "agents/mailbox.py",
                "if message.id != id or message.taken:",
                "if message.id != id:",
            ),
        ),
        "Of a turn that takes a message and a sender who takes it back, one counts.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a running turn hears a message without taking it from the queue",
        "messages",
        (
            Change(
                "agents/model_step.py",
                "if await lets_pass(turn, message.text) and await mailbox.take(host, message):",
                "if await lets_pass(turn, message.text):",
            ),
        ),
        "Of a turn that takes a message and a sender who takes it back, one counts.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a message in the queue begins a turn without being taken",
        "messages",
        (
            Change(
                "agents/turn_start.py",
                "        if not await tool.mailbox.take(host, first):\n            continue\n",
                "",
            ),
        ),
        "Of a turn that takes a message and a sender who takes it back, one counts.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a running turn hears a message again that it has heard",
        "messages",
        (
            Change(
                "agents/model_step.py",
                "message.id in (turn.id, *turn.heard):",
                "message.id == turn.id:",
            ),
        ),
        "A message is read once.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "what a turn heard before a crash is not read from its record",
        "messages",
        (
            Change(
                "agents/turn.py",
                "for heard in self._replay.heard.pop(self.steps + 1, ()):",
                "for heard in self._replay.heard.pop(-1, ()):",
            ),
        ),
        "A message is read once, and a turn that goes on after a crash reads what it had read.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "messages that were heard before a crash stay in the queue if the turn does not come to them again",
        "messages",
        (
            Change(
                "agents/turn_lifecycle.py",
                "heard = list(dict.fromkeys((*turn.record.heard, *turn.heard)))",
                "heard = list(turn.heard)",
            ),
        ),
        "A message is read once, also if its turn ends early after a crash.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a turn whose end was on record when its process died leaves its messages in the queue",
        "messages",
        (
            Change(
                "agents/turn_lifecycle.py",
                "            await self._taken(host, Outages(host, log), thread, id, record.heard)\n        if done",
                "        if done",
            ),
        ),
        "A message is read once, also if the process of its turn dies before the turn is saved.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "messages leave the queue when their turn is saved, and not before",
        "messages",
        (
            Change(
                "agents/turn_lifecycle.py",
                "        await self._taken(turn.host, turn.outages(), turn.thread, turn.id, heard)\n"
                "        save = partial(self._memory.save, turn.host, turn.thread, msgspec.structs.replace(document, heard=heard))\n"
                "        try:\n"
                "            return await save()\n        except StoreUnavailable as error:\n"
                "            return await turn.outages().through(save, error)\n",
                "        save = partial(self._memory.save, turn.host, turn.thread, msgspec.structs.replace(document, heard=heard))\n"
                "        try:\n"
                "            saved = await save()\n        except StoreUnavailable as error:\n"
                "            saved = await turn.outages().through(save, error)\n"
                "        await self._taken(turn.host, turn.outages(), turn.thread, turn.id, heard)\n"
                "        return saved\n",
            ),
        ),
        "A message is read once: when the next turn may begin, what this one has heard is in no queue.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "messages of a thread begin turns in any order",
        "messages",
        (
            Change(
                "agents/mailbox.py",
                'place = f"{key}/{order}-{sha256(message.id.encode()).hexdigest()[:16]}"',
                'place = f"{key}/{sha256(message.id.encode()).hexdigest()[:16]}-{order}"',
            ),
        ),
        "Messages begin turns in the order in which they were sent, those that interrupt first.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a message begins a turn although its queue is held",
        "messages",
        (
            Change(
                "agents/turn_start.py",
                "if not messages or await tool.mailbox.is_held(host, thread):",
                "if not messages:",
            ),
        ),
        "After a stop no message of the queue begins a turn until another one is sent.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "a message that interrupts ends a later turn than the one it was sent to",
        "messages",
        (
            Change(
                "agents/turn_start.py",
                "            if first.stops != head.turns + 1 or interrupted == first.stops:\n"
                "                return taken\n            interrupted = first.stops\n",
                "            if not first.stops or interrupted == head.turns + 1:\n"
                "                return taken\n            interrupted = head.turns + 1\n",
            ),
        ),
        "A message that interrupts ends the turn that ran when it was sent, and no other one.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
    Mutant(
        "messages whose sender died wait until another one is sent",
        "messages",
        (
            Change(
                "runtime/agent_host.py",
                "if tool is None or document.updated_at >= engine.clock.now() - _QUEUES_EVERY:",
                "if tool is None or document.updated_at:",
            ),
        ),
        "A message that was acknowledged begins its turn, also if the process that stored it dies.",
        aim="clerks; clerks in quiet; queues; queues on a file",
    ),
)

_MIDDLEWARE = (
    Mutant(
        "a model is asked before the record of what middleware decided about the request is durable",
        "middleware",
        (
            Change(
                "agents/model_step.py",
                "        if turn.decisions.are_new:\n            await turn.flush()\n"
                "            turn.decisions.are_new = False\n",
                "",
            ),
        ),
        "A decision of middleware is on record before it has an effect, and is not made again.",
        aim="clerks; queues",
    ),
    Mutant(
        "decisions about tool calls are made again after a crash",
        "middleware",
        (
            Change(
                "agents/middleware.py",
                "    known = turn.decisions.of(method, turn.steps, use.id)\n    if known is not None:\n"
                "        return verdict_in(known)\n",
                "",
            ),
        ),
        "A decision of middleware or of a check is made once, also if a process dies.",
        aim="clerks; queues",
    ),
    Mutant(
        "what middleware added to a request is not read from the record after a crash",
        "middleware",
        (
            Change(
                "agents/decisions.py",
                "        return self._edits.pop(step, ()) if self._edits else ()\n",
                "        return ()\n",
            ),
        ),
        "A turn that goes on after a crash asks its model with the messages that were on record.",
        aim="clerks; queues",
    ),
    Mutant(
        "a person is asked before the question of a check is on record",
        "middleware",
        (
            Change(
                "agents/checking.py",
                "        if sending is not None:\n            await sending\n        found = await _answered",
                "        found = await _answered",
            ),
        ),
        "A question is on record before a person sees it: after a crash it is the same one.",
        aim="clerks; queues",
    ),
    Mutant(
        "an answer about which a check asks a person is not kept meanwhile",
        "middleware",
        (
            Change(
                "agents/checking.py",
                "        if id and hold is not None:\n            await hold()\n",
                "",
            ),
        ),
        "A reply is not asked for again: the answer about which a person decides is the one that the turn gives.",
        aim="clerks; queues",
    ),
    Mutant(
        "a turn that goes on asks the model again for the answer about which a person decides",
        "middleware",
        (
            Change(
                "agents/model_step.py",
                "        held = turn.held()\n        if held is None:\n            reply, took",
                "        held = None\n        if held is None:\n            reply, took",
            ),
        ),
        "A reply is not asked for again: the answer about which a person decides is the one that the turn gives.",
        aim="clerks; queues",
    ),
    Mutant(
        "a message passes unchecked if its process dies before the check",
        "middleware",
        (
            Change(
                "agents/checking.py",
                "if turn.is_replaying and turn.decisions.of(method, 1) is None:",
                "if turn.resumed and turn.decisions.of(method, 1) is None:",
            ),
        ),
        "No model reads a message that a check refuses, whichever process runs the turn.",
        aim="clerks; queues",
    ),
    Mutant(
        "an answer that was refused before a crash is the answer after it",
        "middleware",
        (
            Change(
                "agents/turn.py",
                "self._take(message, reply.usage, reply.took, reply.refused)",
                "self._take(message, reply.usage, reply.took, None)",
            ),
        ),
        "A refused answer is no answer, also if the process dies after it is on record.",
        aim="clerks; queues",
    ),
    Mutant(
        "a typed answer loses its value at a crash",
        "middleware",
        (
            Change(
                "agents/turn.py",
                "        self.answer = self._recorded.answers.get(reply.step)\n",
                "        self.answer = None\n",
            ),
        ),
        "A typed answer has its type, whichever process ends the turn.",
        aim="clerks; queues",
    ),
)

_MODELS = (
    Mutant(
        "the next model of a chain is asked before the failed try is on record",
        "models",
        (
            Change(
                "agents/model_chain.py",
                "        await turn.flush()\n        turn.leave_if_lost()\n",
                "        turn.leave_if_lost()\n",
            ),
        ),
        "A try that cost something is on record before the next one begins.",
        aim="clerks; clerks in quiet",
    ),
    Mutant(
        "tries of a chain before a crash are not counted after it",
        "models",
        (
            Change(
                "agents/turn.py",
                "[*self.record.summaries, *self.record.unused]",
                "[*self.record.summaries]",
            ),
        ),
        "What the models of a chain have used counts once, in the turn and in the ledger, also after a crash.",
        aim="clerks; clerks in quiet",
    ),
    Mutant(
        "the reservation of a try that failed is kept",
        "models",
        (
            Change(
                "agents/model_chain.py",
                "            if held is not None:\n                await self._give_back(held, error)\n"
                "            raise\n",
                "            raise\n",
            ),
        ),
        "At rest nothing stays reserved: a model that fails gives back what was reserved for it.",
        aim="clerks; clerks in quiet",
    ),
    Mutant(
        "a try of a chain that was stopped under way costs nothing",
        "models",
        (
            Change(
                "agents/model_chain.py",
                "        except (OutOfTime, asyncio.CancelledError):\n            if held is not None:\n"
                "                turn.spending.assume(held)\n",
                "        except (OutOfTime, asyncio.CancelledError):\n            if held is not None:\n"
                "                await turn.spending.release(held)\n",
            ),
        ),
        "A request that was stopped under way may have cost something: what was reserved counts as spent.",
        aim="clerks; clerks in quiet",
    ),
    Mutant(
        "a reply of a chain that was not used is counted when the turn goes on, and not before",
        "models",
        (
            Change(
                "agents/model_chain.py",
                "        if note is not None:\n            await settle(turn, step, note, usage)\n"
                "        await turn.flush()",
                "        await turn.flush()",
            ),
        ),
        "Each try of a chain is in the ledger once.",
        aim="clerks; clerks in quiet",
    ),
)

_HANDOFFS = (
    Mutant(
        "a turn that was handed over goes on with its first agent after a crash",
        "handoffs",
        (
            Change(
                "agents/turn.py",
                "            if known is not None and known.use == use.id:\n"
                "                raise TurnHandedOver(Handoff(known.agent, history=known.history), use)\n",
                "",
            ),
        ),
        "A turn stays with the agent that it was handed to, whichever process goes on with it.",
        aim="handoffs",
    ),
    Mutant(
        "a handoff is recorded again by each process that goes on with the turn",
        "handoffs",
        (
            Change(
                "agents/turn_lifecycle.py",
                "        entry = turn.recorded_handoff()\n        if entry is None:\n            other = await",
                "        entry = None\n        if entry is None:\n            other = await",
            ),
        ),
        "A handoff is on record once.",
        aim="handoffs",
    ),
    Mutant(
        "the other agent does not read that the turn was handed to it",
        "handoffs",
        (
            Change(
                "agents/turn_lifecycle.py",
                "            await turn.flush()\n        turn.take_handoff(entry)\n",
                "            await turn.flush()\n            turn.take_handoff(entry)\n",
            ),
        ),
        "After a crash the other agent reads what it had read.",
        aim="handoffs",
    ),
)

_MEMORY = (
    Mutant(
        "facts that two turns remember at once overwrite each other",
        "memory",
        (
            Change(
                "agents/facts.py",
                "documents.protect(MEMORY, key, encode(new)), version):",
                "documents.protect(MEMORY, key, encode(new)), None):",
            ),
        ),
        "What a model remembered, acknowledged, is in the memory.",
        aim="facts",
    ),
    Mutant(
        "a fact is remembered again when its call runs again",
        "memory",
        (
            Change(
                "agents/facts.py",
                "next((each for each in known if id == each.id or each.text == fact.text), None)",
                "next((each for each in known if id == each.id and not each.text), None)",
            ),
        ),
        "A fact is remembered once, also if the process of its call dies before the call's outcome is on record.",
        aim="facts",
    ),
    Mutant(
        "a turn that goes on after a crash reads the memory anew",
        "memory",
        (
            Change(
                "agents/middleware.py",
                "    known: T | None = turn.decisions.of(method, step)\n    if known is not None:\n"
                "        return known\n",
                "",
            ),
        ),
        "What a turn read of the memory at its beginning is on record, and does not change while it runs.",
        aim="facts",
    ),
)

MUTANTS: tuple[Mutant, ...] = (
    *_CALLS, *_LEASES, *_PEOPLE, *_EXTERNAL, *_CACHE, *_SLOTS, *_SCHEDULES, *_SPEND, *_AGENTS, *_WEBHOOKS, *_STORE, *_SERVER, *_CREDENTIALS,
    *_RETENTION, *_MESSAGES, *_MIDDLEWARE, *_MODELS, *_HANDOFFS, *_MEMORY,
)  # fmt: skip

HARMLESS: tuple[tuple[Mutant, str], ...] = (
    (
        Mutant(
            "an attempt that was abandoned is retried while its body runs",
            "calls",
            (
                Change(
                    "engine/lifecycle/runner.py",
                    "is_attended=not (attempt.abandoned or attempt.caller_left),",
                    "is_attended=not attempt.caller_left,",
                ),
            ),
            "An abandoned call ends on time and says so; its body never runs beside a second attempt.",
        ),
        "An attempt is abandoned in the callback that ends its call, and a call that ends is not tried again for that reason alone.",
    ),
)
"""Taken out of the list: no order of events shows them, for this reason."""
