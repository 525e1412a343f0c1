"""Published bugs of other durable runtimes and agent frameworks, each with the scenario that shows what happens in clicket.

`scripts/peers_bugs.py` makes docs/peers-bugs.md and its Chinese twin from this table; `test_peers_bugs_page.py` keeps them equal. The
threads were read in November 2026 in stored copies, the newest of September 2026.
"""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["PEERS_BUGS", "PeersBug"]


class PeersBug(msgspec.Struct, frozen=True, kw_only=True):
    peer: str
    """`owner/name` of the repository."""
    number: int
    kind: Literal["issues", "pull"] = "issues"
    since: str
    """When it was reported, and the version that the report names."""
    state: Literal["open", "closed", "merged"]
    """Of the thread, when it was read."""
    what: str
    """What it was, in our own words."""
    here: str
    """What happens in clicket."""
    same: bool = False
    """clicket has the same limit."""
    test: str
    """The name of the test, in one of `test_peers_bugs*.py`."""

    @property
    def url(self) -> str:
        return f"https://github.com/{self.peer}/{self.kind}/{self.number}"


_VERCEL, _DBOS, _LANGGRAPH = "vercel/workflow", "dbos-inc/dbos-transact-py", "langchain-ai/langgraph"

PEERS_BUGS = (
    PeersBug(
        peer=_VERCEL,
        number=2737,
        since="July 2026, 4.5.0",
        state="closed",
        what=(
            "Runs failed for good as corrupted: a replay of the workflow's code reached other steps than the recorded ones. One "
            "user had about 130 such runs."
        ),
        here=(
            "No code is replayed to find out what a call is: a turn's replies and calls are on record under ids of their own. "
            "Killed in a step of three parallel calls, in either order, the turn keeps two results, repeats the call that may be "
            "repeated, and asks for no recorded step again."
        ),
        test="test_vercel_2737_parallel_calls_that_ended_in_another_order",
    ),
    PeersBug(
        peer=_VERCEL,
        number=3070,
        since="July 2026, core 4.6.1",
        state="open",
        what="Several hooks raced against a sleep; after 41 minutes a recovery replay took the other side of the race, and the run failed.",
        here=(
            "The journal says whether the result or the timeout came first. The sender of the result hears the same, and so does "
            "every process after a restart."
        ),
        test="test_vercel_3070_several_results_race_against_a_timeout",
    ),
    PeersBug(
        peer=_VERCEL,
        number=3147,
        kind="pull",
        since="July 2026",
        state="merged",
        what=(
            "Two replays of one run worked from event lists of different length. If the number of steps depended on the missing "
            "event, all later ids shifted. 2 of 2,000 runs of the reproduction were corrupted."
        ),
        here=(
            "A turn has one owner. Of two processes that continue it at once, one asks the model and makes the calls; the other one"
            " waits and returns the same result."
        ),
        test="test_vercel_3147_two_processes_replay_one_run",
    ),
    PeersBug(
        peer=_VERCEL,
        number=4017,
        kind="pull",
        since="September 2026, 5.0.0-beta.46",
        state="merged",
        what=(
            "Bursts of wake-ups next to a timer's deadline made replays of one unchanged log stop at the same event now and then, "
            "until the run was given up."
        ),
        here=(
            "Of many decisions at the deadline of an approval at most one counts, and its sender alone hears so. This scenario "
            "found a fault of clicket, which is mended: a decision could be acknowledged while the call ended as timeout."
        ),
        test="test_vercel_4017_a_burst_of_decisions_at_the_deadline",
    ),
    PeersBug(
        peer=_VERCEL,
        number=2780,
        since="July 2026, 5.0.0-beta.26",
        state="closed",
        what="A payload on an unrelated hook woke the run, and the step that was under way was started a second time beside the first.",
        here="A decision on one call of a step concerns that call only. The other one, which is running, goes on and runs once.",
        test="test_vercel_2780_an_answer_arrives_while_another_call_runs",
    ),
    PeersBug(
        peer=_VERCEL,
        number=1203,
        since="February 2026",
        state="closed",
        what="A hook could not be resumed once the deployment that had started the run was no longer kept.",
        here=(
            "After the process that asked is killed, any process over the store decides, also one without the tool; a process with "
            "a newer version of the tool runs the call."
        ),
        test="test_vercel_1203_a_decision_after_the_asking_process_is_gone",
    ),
    PeersBug(
        peer=_VERCEL,
        number=3841,
        kind="pull",
        since="August 2026",
        state="merged",
        what="Resuming a hook could report success before the payload was in the event log, and the payload could get lost.",
        here=(
            "`rt.complete` returns when the result is stored. The process that brought it is killed at that moment; the call ends "
            "with the result."
        ),
        test="test_vercel_3841_a_result_that_was_acknowledged",
    ),
    PeersBug(
        peer=_VERCEL,
        number=1012,
        since="February 2026",
        state="open",
        what="A run stopped making progress when its log had reached 1,000 events.",
        here=(
            "Another process reads the 1,800 events of one call in order and without a gap. A call has limits: 1,000 output events,"
            " 1,000 notes."
        ),
        test="test_vercel_1012_a_call_with_more_events_than_a_page",
    ),
    PeersBug(
        peer=_DBOS,
        number=541,
        since="December 2025, 2.7.0a4",
        state="closed",
        what="Two workers that took workflows from one queue on SQLite sometimes both ran the same one.",
        here="A claim is one transaction. Two processes over one file run 40 calls, each once.",
        test="test_dbos_541_two_workers_over_one_sqlite_file",
    ),
    PeersBug(
        peer=_DBOS,
        number=544,
        since="December 2025",
        state="closed",
        what="Callers that used one workflow id at the same time all ran the body; only callers after its end got the recorded result.",
        here="The body runs once. All callers, in two processes, get its result.",
        test="test_dbos_544_equal_ids_while_the_call_runs",
    ),
    PeersBug(
        peer=_DBOS,
        number=546,
        since="December 2025",
        state="closed",
        what="If one workflow of a dequeued batch could not be dispatched, the rest of the batch was left pending.",
        here="A call whose recorded arguments the tool no longer accepts ends as `tool_unavailable`; the calls before and behind it run.",
        test="test_dbos_546_one_call_of_a_batch_cannot_be_dispatched",
    ),
    PeersBug(
        peer=_DBOS,
        number=716,
        since="June 2026, 2.23.0",
        state="closed",
        what=(
            "The database restarted while a process recovered the workflows of a dead one; those that met the error stayed pending "
            "for ever."
        ),
        here=(
            "Redis is killed after it has given five calls to the recovering process and before that process hears of it. `recover`"
            " raises `StoreUnavailable`; when Redis is back, the process finds calls that it owns and does not hold, gives them "
            "back, and they run."
        ),
        test="test_dbos_716_the_store_goes_away_during_the_recovery",
    ),
    PeersBug(
        peer=_DBOS,
        number=742,
        since="June 2026, 2.24.0",
        state="closed",
        what="A recovery with an older list of pending workflows ran one that another recovery had already given back to the queue.",
        here=(
            "A call is claimed by compare-and-set, so a list that is out of date claims nothing. Three processes recover twelve "
            "calls at once; each has one new owner."
        ),
        test="test_dbos_742_two_recoveries_of_one_dead_owner",
    ),
    PeersBug(
        peer=_DBOS,
        number=769,
        since="July 2026",
        state="closed",
        what=(
            "A garbage collection that was interrupted left step results behind; a new workflow with the same id got the old result"
            " and did not run."
        ),
        here=(
            "The removal of a call is one transaction: killed in it, the call is whole. After the removal its id runs anew and "
            "finds no checkpoint. While the outcome is kept (30 days), the same request gets it, and a different one a `Conflict`."
        ),
        test="test_dbos_769_an_id_that_comes_again_after_its_call_was_removed",
    ),
    PeersBug(
        peer=_DBOS,
        number=770,
        since="July 2026",
        state="closed",
        what="A value that a step wrote to a stream was there again after each retry of the step.",
        here=(
            "The result has each value once. The events of a failed attempt stay on record, and readers see them: `attempt_started`"
            " and offsets from 0 say where the next attempt begins."
        ),
        test="test_dbos_770_values_that_an_attempt_streamed_before_it_failed",
    ),
    PeersBug(
        peer=_DBOS,
        number=804,
        since="July 2026",
        state="closed",
        what=(
            "During a rolling restart the draining process took back the workflow that the new process had just recovered, and "
            "ended with it."
        ),
        here="A process that drains claims nothing. New calls run in the new process; the call that still runs in the old one ends there.",
        test="test_dbos_804_a_process_that_drains_claims_nothing_again",
    ),
    PeersBug(
        peer=_DBOS,
        number=805,
        since="July 2026, 2.26.0",
        state="closed",
        what="A recovered workflow stayed pending between two steps and blocked its queue, which had a concurrency of one.",
        here=(
            "The process is killed with the only slot of the tool. The slot is free when its owner is dead; the call and the three "
            "behind it run."
        ),
        test="test_dbos_805_a_queue_of_one_after_a_crash",
    ),
    PeersBug(
        peer=_DBOS,
        number=812,
        since="August 2026",
        state="closed",
        what=(
            "Two executions of one workflow ran a transaction at the same time; the slower one raised the database's integrity "
            "error in place of the recorded result."
        ),
        here="The caller of the slower execution gets the recorded result. What the slower one returned is on record as `late_result`.",
        test="test_dbos_812_a_duplicate_execution_that_loses",
    ),
    PeersBug(
        peer=_DBOS,
        number=818,
        since="August 2026",
        state="closed",
        what=(
            "After such a conflict, the duplicate execution went on instead of waiting for the other one, as it does after ordinary"
            " steps."
        ),
        here=(
            "A process that lost its turn to another one writes nothing and runs no further tool, and its caller gets the result on"
            " record. Until a write is refused it may still ask, and pay, its model."
        ),
        test="test_dbos_818_an_execution_that_was_taken_over_stops",
    ),
    PeersBug(
        peer=_LANGGRAPH,
        number=5952,
        since="August 2025",
        state="open",
        what="With several interrupts in parallel nodes, interrupts that had been answered were raised again.",
        here=(
            "One of three parallel calls is approved and runs; after a restart the other two wait, and the first is neither asked "
            "for nor run again."
        ),
        test="test_langgraph_5952_answered_questions_are_not_asked_again",
    ),
    PeersBug(
        peer=_LANGGRAPH,
        number=6208,
        since="September 2025",
        state="open",
        same=True,
        what="A node with two interrupts runs again, from its beginning, after the first answer.",
        here=(
            "The body of a tool that asks a person (an MCP server does) also runs again with each answer. Answers are on record and"
            " not asked for again, and `ctx.checkpoint` keeps work that is done. Approvals are outside of the body, which runs "
            "once."
        ),
        test="test_langgraph_6208_a_body_that_asks_two_questions",
    ),
    PeersBug(
        peer=_LANGGRAPH,
        number=6626,
        since="December 2025",
        state="closed",
        what="Interrupts of parallel tools had one id in common, so answers could not be sent to them apart.",
        here=(
            "Each call has its own id. Three calls wait at once; an edit, a refusal and an approval, in another order, reach the "
            "calls that they name."
        ),
        test="test_langgraph_6626_parallel_questions_have_their_own_ids",
    ),
    PeersBug(
        peer="google/adk-python",
        number=7102,
        since="2026",
        state="closed",
        what="Each checkpoint of a resumable workflow held every tool response so far, so a session grew with the square of its steps.",
        here="A result is stored once. The bytes that the store takes grow in proportion to the steps.",
        test="test_adk_7102_what_a_step_adds_to_the_store",
    ),
    PeersBug(
        peer="crewAIInc/crewAI",
        number=5802,
        since="2026",
        state="open",
        what="When a task is retried, tools that had succeeded run again: payments or mails happen twice.",
        here=(
            "The model fails after the payment. Neither the retry of the request nor the message sent again repeats the payment: "
            "its result is in the transcript."
        ),
        test="test_crewai_5802_a_retry_after_a_call_that_succeeded",
    ),
    PeersBug(
        peer="microsoft/agent-framework",
        number=7458,
        since="2026",
        state="closed",
        what=(
            "An approval was used up and the tool had run when the model failed; the answer could not be sent again, and a retry "
            "looked like a new request."
        ),
        here="The approved call and its result are on record. The next message continues from them, without a second approval or run.",
        test="test_agent_framework_7458_the_model_fails_after_an_approved_call",
    ),
    PeersBug(
        peer="openai/openai-agents-python",
        number=4615,
        since="August 2026, 0.20 to 0.22",
        state="closed",
        what=(
            "The write of an approved tool's output to the session failed once; the retry did not repeat it, and the session kept a"
            " call without an output."
        ),
        here="The turn waits until the store answers, and writes again. The tool runs once, and its call has its result.",
        test="test_openai_agents_4615_the_output_of_a_call_cannot_be_stored_at_first",
    ),
    PeersBug(
        peer="openai/openai-agents-python",
        number=4254,
        since="August 2026",
        state="closed",
        same=True,
        what="A model that plans again asks for the same effect under a new call id, and it happens twice; left to the tool's author.",
        here=(
            "A call that the model asks for in two steps is two calls here, too, with two idempotency keys, and both run. "
            "`max_repeats` limits how often; a policy can ask a person; a tool can derive its own key from its arguments."
        ),
        test="test_openai_agents_4254_the_model_asks_for_the_same_effect_again",
    ),
    PeersBug(
        peer="celery/kombu",
        number=337,
        since="April 2014",
        state="open",
        what="On Redis, a task that was due later than the visibility timeout was delivered again, and ran more than once.",
        here="A call that waits for its time has no owner, so no lease can end. It is due after 720 leases, and runs once.",
        test="test_kombu_337_a_call_that_waits_longer_than_a_lease",
    ),
    PeersBug(
        peer="PrefectHQ/prefect",
        number=7461,
        since="November 2022, 2.x",
        state="closed",
        what="After the end of daylight saving time, scheduled flows ran twice a day, an hour apart.",
        here=(
            "A time of every day in New York is one call a day in the four days around 6 November 2022, also if it lies in the hour"
            " that comes twice."
        ),
        test="test_prefect_7461_a_schedule_at_the_end_of_daylight_saving_time",
    ),
    PeersBug(
        peer="temporalio/sdk-python",
        number=1048,
        since="August 2025",
        state="open",
        what=(
            "A plain function in a process pool cannot be cancelled: it runs to its end and holds its place, and may run beside its"
            " own retry."
        ),
        here=(
            "The child process of the body is ended. The call is `cancelled`, its slot is free, and the runtime closes. A body in a"
            " thread cannot be ended: its call is, and it counts as abandoned."
        ),
        test="test_temporal_1048_a_cancel_of_a_body_in_a_child_process",
    ),
    PeersBug(
        peer="langchain4j/langchain4j",
        number=5171,
        kind="pull",
        since="June 2026, found in review",
        state="merged",
        what=(
            "A tool call failed, and those before it were compensated; the model went on, a later call failed, and the same ones were"
            " compensated again."
        ),
        here=(
            "Tool calls that fail undo nothing while the turn goes on. When it fails, each call is undone by one call whose id"
            " follows from its own, whoever asks again."
        ),
        test="test_langchain4j_5171_several_failures_in_one_turn",
    ),
    PeersBug(
        peer="langchain4j/langchain4j",
        number=5823,
        kind="pull",
        since="July 2026, found in review",
        state="merged",
        what=(
            "A tool error that the model recovered from rolled back what earlier agents had done; then the workflow completed, and"
            " reported success."
        ),
        here="Only the end of the turn counts: the tool's second try succeeds, the turn finishes, and nothing is undone.",
        test="test_langchain4j_5823_an_error_that_the_agent_recovers_from",
    ),
)
