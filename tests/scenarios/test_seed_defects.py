"""Defects in the design notes that this library is based on, each with the tests that would catch it here.

Only those of the call, the pipeline, streaming and the executor; other parts have their own tests.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest
from tests.kit.imports import parsed

TESTS = Path(__file__).resolve().parents[1]

LIFECYCLE = {
    "no check of transitions: a terminal state can be overwritten": [
        "unit/kernel/test_tables.py::test_every_edge_is_taken_or_refused",
        "unit/kernel/test_tables.py::test_terminal_states_lead_nowhere",
        "scenarios/test_races.py::test_of_all_that_race_one_wins",
    ],
    "the end of the stream sets completed even after a failure": [
        "scenarios/test_streaming.py::test_a_failing_stream_ends_as_failed_and_stays_so",
    ],
    "retrying, the number of retries and their delay are declared and never used": [
        "scenarios/test_retries.py::test_errors_that_say_they_are_transient_are_tried_again",
        "scenarios/test_retries.py::test_max_retries_is_exact",
        "scenarios/test_retries.py::test_the_planned_delay_is_on_record_and_was_waited",
    ],
    "the start time is never set": ["scenarios/test_calls.py::test_every_kind_of_tool"],
    "the end time is set after listeners have fired": [
        "scenarios/test_durable_calls.py::test_nothing_is_visible_before_the_store_has_it",
        "unit/engine/journal/test_journal.py::test_the_store_has_it_when_listeners_hear_of_it",
    ],
    "a cancelled call has no end time": [
        "scenarios/test_timeouts_cancel.py::test_cancel_while_queued",
        "scenarios/test_timeouts_cancel.py::test_a_cancelled_caller_cancels_its_call",
    ],
    "a timeout sets neither end time nor latch: those who wait hang": [
        "scenarios/test_timeouts_cancel.py::test_an_async_body_is_stopped_when_its_time_is_up",
    ],
    "cancel is a flag; nothing stops the work": [
        "scenarios/test_timeouts_cancel.py::test_cancel_while_running_or_streaming_stops_the_body",
        "scenarios/test_isolation.py::test_a_stopped_tool_is_killed_with_its_children",
    ],
    "after a timeout the producer keeps running and keeps changing state": [
        "scenarios/test_abandoned.py::test_an_abandoned_body_says_nothing_more",
        "scenarios/test_abandoned.py::test_a_thread_tool_ends_on_time_is_abandoned_and_keeps_its_slot",
    ],
    "the output buffer is unbounded": [
        "scenarios/test_output_limits.py::test_endless_output_does_not_grow_memory",
        "scenarios/test_output_limits.py::test_output_beyond_the_limit_goes_to_the_artifact_announced_by_one_note",
    ],
    "contexts of ended executions are kept for ever": [
        "scenarios/test_limits.py::test_a_flood_of_calls_all_end_and_leave_nothing",
    ],
    "declared defaults are not applied": [
        "unit/tools/test_options.py::test_the_defaults_are_the_documented_ones",
        "unit/runtime/test_settings.py::test_the_defaults_are_the_documented_ones",
    ],
}

STREAMING = {
    "the last element of the stream is dropped": [
        "scenarios/test_streaming.py::test_events_arrive_while_the_tool_still_runs_and_end_with_the_outcome",
    ],
    "every element of the stream runs the tool again": [
        "scenarios/test_streaming.py::test_the_body_runs_once_however_many_elements_and_readers_there_are",
    ],
    "messages without the field that consumers switch on are dropped": [
        "scenarios/test_calls.py::test_the_states_of_a_plain_and_of_a_streaming_call",
        "scenarios/test_streaming.py::test_a_reader_in_another_process_sees_the_same",
    ],
    "the state is updated twice, by the producer and by the reader": [
        "scenarios/test_calls.py::test_the_states_of_a_plain_and_of_a_streaming_call",
    ],
}

PERSISTENCE = {
    "read-modify-write races": ["scenarios/test_races.py::test_cancel_from_another_process_reaches_the_body"],
    "a new id and a new creation time with every save": [
        "scenarios/test_idempotency.py::test_the_id_is_remembered_after_a_restart"
    ],
    "a save overwrites output that was appended": ["scenarios/test_streaming.py::test_replay_starts_after_any_number"],
    "ids of one thread collide with those of another": [
        "scenarios/test_idempotency.py::test_one_id_in_two_threads_is_two_calls"
    ],
    "write errors are swallowed": [
        "scenarios/test_store_faults.py::test_a_full_disk_refuses_calls_keeps_what_it_has_and_goes_on_when_there_is_room",
        "scenarios/test_store_faults.py::test_a_limit_on_file_sizes_is_store_unavailable_too",
    ],
    "nothing recovers what a crash left": [
        "scenarios/test_recovery.py::test_what_never_started_runs",
        "scenarios/test_recovery.py::test_what_may_be_repeated_runs_again_with_the_same_key",
        "scenarios/test_recovery.py::test_of_the_rest_the_outcome_is_unknown_and_it_is_said",
    ],
}

PIPELINE = {
    "one failure in a batch breaks the unpacking of all results": [
        "scenarios/test_call_many.py::test_one_failure_harms_no_other",
    ],
    "one failure marks every call of the batch failed": [
        "scenarios/test_call_many.py::test_one_failure_harms_no_other"
    ],
    "calls that return early never reach the history": [
        "scenarios/test_calls.py::test_a_refused_call_is_on_record_with_its_stages",
    ],
    "the progress callback is never called, 100 % is never reported": [
        "scenarios/test_streaming.py::test_progress_has_percentage_estimate_and_ends_at_100",
        "scenarios/test_streaming.py::test_progress_without_a_total_still_reports_100_at_the_end",
    ],
    "truncation counts characters, says bytes, and exceeds the limit": [
        "scenarios/test_results.py::test_content_is_at_most_the_limit_in_bytes_whatever_the_text",
        "scenarios/test_results.py::test_exactly_the_limit_is_not_cut",
    ],
    "an unserializable result looks as if the tool had failed": [
        "scenarios/test_results.py::test_what_is_not_json_is_a_typed_error_and_never_a_repr",
    ],
    "the same id runs again": [
        "scenarios/test_idempotency.py::test_the_same_id_with_the_same_arguments_is_the_same_call",
        "scenarios/test_idempotency.py::test_many_at_once_with_one_id_run_once",
    ],
    "a tool's own TimeoutError is taken for the pipeline's": [
        "scenarios/test_timeouts_cancel.py::test_a_tools_own_timeout_error_is_a_tool_error",
    ],
    "no timeout or retry per tool": [
        "scenarios/test_timeouts_cancel.py::test_the_calls_own_timeout_wins_over_the_tools",
        "scenarios/test_retries.py::test_retry_on_names_more",
    ],
    "a semaphore per call, not for all": [
        "scenarios/test_call_many.py::test_the_limit_of_the_runtime_holds_over_all_batches",
        "scenarios/test_limits.py::test_the_runtime_runs_at_most_its_limit_at_once",
    ],
    "rules about the whole object are ignored": [
        "scenarios/test_hostile_schemas.py::test_whole_object_rules_count",
        "scenarios/test_hostile_schemas.py::test_unknown_fields_are_refused_whatever_the_schema_is_made_of",
        "scenarios/test_hostile_schemas.py::test_a_recursive_schema_works",
    ],
}

EXECUTOR = {
    "the error for a nested loop is swallowed by its own handler": [
        "scenarios/test_sync_face.py::test_inside_a_running_loop_it_raises_instead_of_deadlocking",
        "unit/system/test_bridge.py::test_errors_come_back_as_they_are",
    ],
    "with neither body overridden the two call each other without end": [
        "unit/tools/test_function.py::test_a_class_with_no_body_or_a_wrong_one_is_refused",
    ],
    "the sync face computes a timeout and never applies it": [
        "scenarios/test_sync_face.py::test_a_sync_tool_sees_its_time_limit_and_ends_on_time",
    ],
    "a thread that timed out runs on and holds its worker, unseen": [
        "scenarios/test_abandoned.py::test_a_thread_tool_ends_on_time_is_abandoned_and_keeps_its_slot",
    ],
    "the wait in the queue counts against the timeout": [
        "scenarios/test_timeouts_cancel.py::test_the_wait_in_the_queue_does_not_count_against_the_attempt",
    ],
    "sync tools bypass the limiter": ["scenarios/test_limits.py::test_sync_tools_pass_through_the_same_limits"],
    "the limiter is never used": ["scenarios/test_limits.py::test_the_runtime_runs_at_most_its_limit_at_once"],
    "kinds of tools are told apart by the name of a base class": [
        "unit/tools/test_registry.py::test_a_tool_of_ones_own_needs_no_base_class",
        "unit/tools/test_function.py::test_what_is_async_is_known",
    ],
    "a missing tool is an AttributeError": ["scenarios/test_calls.py::test_an_unknown_tool_names_near_misses"],
    "arguments are validated twice": ["scenarios/test_calls.py::test_arguments_are_checked_once"],
    "exceptions are flattened: a timeout cannot be told from a failure": [
        "scenarios/test_calls.py::test_a_failure_is_returned_with_what_the_tool_said",
        "scenarios/test_timeouts_cancel.py::test_an_async_body_is_stopped_when_its_time_is_up",
    ],
    "one HTTP session is used from one new loop after another": [
        "unit/tools/test_rest_redirects.py::test_a_new_loop_gets_a_new_client",
        "scenarios/test_sync_face.py::test_one_loop_in_one_thread_is_reused",
    ],
    "every answer of 200 is taken for a failure": ["unit/tools/test_rest_responses.py::test_client_and_server_errors"],
    "native async tools have no timeout": [
        "scenarios/test_native.py::test_options_come_as_class_keywords_or_attributes"
    ],
    "a batch drops the calls beyond its size": ["scenarios/test_call_many.py::test_order_is_kept_and_nothing_dropped"],
    "each caller gets a body wrapped in the other": [
        "scenarios/test_sync_face.py::test_each_caller_gets_the_direct_body_of_a_class",
        "scenarios/test_calls.py::test_an_async_caller_gets_the_async_body_of_a_class",
    ],
}

DEFECTS = {**LIFECYCLE, **STREAMING, **PERSISTENCE, **PIPELINE, **EXECUTOR}


@cache
def named_in(file: str) -> frozenset[str]:
    tree = parsed((TESTS / file).read_text())
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, kinds) and node.name.startswith("test_"))


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_test_would_catch_it(defect: str) -> None:
    assert DEFECTS[defect]
    for name in DEFECTS[defect]:
        file, _, function = name.partition("::")
        assert (TESTS / file).is_file(), name
        assert function in named_in(file), name


def test_no_defect_is_listed_twice() -> None:
    assert len(DEFECTS) == sum(map(len, (LIFECYCLE, STREAMING, PERSISTENCE, PIPELINE, EXECUTOR)))
