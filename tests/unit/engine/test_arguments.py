"""Arguments in the journal: with the key they are restored, without it the call fails with the reason, and a mask never
runs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.engine.fakes import Lower

from clicket import tool
from clicket.engine.records.arguments import ArgumentsOnRecord
from clicket.errors import Conflict, InvalidInput
from clicket.model import ToolCall, read
from clicket.safety.vault import MASK, Vault

KEY = "a key of more than sixteen characters"
SECRET = "hunter2hunter2"


@tool(sensitive=["key"])
async def pay(amount: int = 0, key: str = "") -> str:
    return "paid"


@tool
async def echo(text: str = "") -> str:
    return text


class Parts(Lower):
    def __init__(self, vault: Vault) -> None:
        super().__init__(pay, echo, vault=vault)
        self.arguments = ArgumentsOnRecord(vault, self.registry, max_size=10_000)

    def decided(self, call: Any, arguments: Any, *, in_process: bool = True) -> dict[str, Any]:
        """An approver in this or another process wrote other arguments."""
        record = read(call.id, self.store.events_of(call))
        decision = self.arguments.recorded_edit(record, call if in_process else None, arguments)
        self.store.write(call, "approval_given", approved=True, **decision)
        return {"approved": True, **decision}


async def test_plain_arguments_are_read_as_they_are() -> None:
    parts = Parts(Vault())
    call = parts.pending("echo", {"text": "x"}, metadata={"run": 1})
    assert parts.arguments.in_force("a", parts.store.events_of(call)) == ({"text": "x"}, {"run": 1}, False)


async def test_a_secret_is_on_record_as_a_mask_and_comes_back_with_the_key() -> None:
    parts = Parts(Vault([KEY]))
    call = parts.pending("pay", {"amount": 1, "key": SECRET}, metadata={"about": SECRET})
    events = parts.store.events_of(call)
    assert SECRET not in msgspec.json.encode(events).decode()
    assert parts.arguments.in_force("a", events) == ({"amount": 1, "key": SECRET}, {"about": SECRET}, False)
    stranger = ArgumentsOnRecord(Vault(["another key of that length"]), parts.registry, max_size=10_000)
    assert stranger.in_force("a", events)[2], "lost"


async def test_without_a_key_only_the_process_that_had_the_call_can_go_on() -> None:
    parts = Parts(Vault())
    call = parts.pending("pay", {"key": SECRET})
    events = parts.store.events_of(call)
    assert parts.arguments.in_force("a", events)[2], "lost"
    arguments, _, lost = parts.arguments.in_force("a", events, call)
    assert (arguments, lost) == ({"key": SECRET}, False)
    other = parts.made("pay", {"key": "not the same one"})
    other.arguments = {"key": "not the same one"}
    assert parts.arguments.in_force("a", events, other)[2], "another call's arguments are not used for these"


async def test_an_approvers_arguments_are_in_force_once_they_are_on_record() -> None:
    parts = Parts(Vault())
    call = parts.pending("echo", {"text": "first"})
    decision = parts.decided(call, {"text": "second"})
    assert parts.arguments.in_force("a", parts.store.events_of(call))[0] == {"text": "second"}
    assert parts.arguments.edited_in(decision, call) == {"text": "second"}


@pytest.mark.parametrize(
    ("vault", "in_process", "found"), [(Vault(), True, True), (Vault(), False, False), (Vault([KEY]), False, True)]
)
async def test_an_approvers_secret_is_masked_and_found_again_where_it_can_be(
    vault: Vault, in_process: bool, found: bool
) -> None:
    parts = Parts(vault)
    call = parts.pending("pay", {"amount": 1})
    decision = parts.decided(call, {"amount": 2, "key": SECRET}, in_process=in_process)
    assert SECRET not in msgspec.json.encode(parts.store.events_of(call)).decode()
    edited = parts.arguments.edited_in(decision, call)
    assert edited == ({"amount": 2, "key": SECRET} if found else None)


async def test_a_mask_that_an_approver_left_stands_for_what_it_hid() -> None:
    parts = Parts(Vault([KEY]))
    call = parts.pending("pay", {"amount": 1, "key": SECRET})
    record = read("a", parts.store.events_of(call))
    shown = dict(record.arguments)
    assert shown["key"] == MASK
    assert parts.arguments.unmasked(record, None, {**shown, "amount": 5}) == {"amount": 5, "key": SECRET}
    assert parts.arguments.unmasked(record, None, shown) is None, "the arguments are unchanged"
    assert parts.arguments.unmasked(record, None, {"amount": 5, "key": "in full"}) == {"amount": 5, "key": "in full"}


async def test_a_mask_that_nothing_stands_behind_is_refused() -> None:
    parts = Parts(Vault())
    call = parts.pending("pay", {"amount": 1, "key": SECRET})
    record = read("a", parts.store.events_of(call))
    with pytest.raises(InvalidInput, match="mask"):
        parts.arguments.unmasked(record, None, {"amount": 5, "key": MASK})
    assert parts.arguments.unmasked(record, call, {"amount": 5, "key": MASK}) == {"amount": 5, "key": SECRET}


@pytest.mark.parametrize(
    ("name", "given", "same"),
    [
        ("pay", {"amount": 1, "key": SECRET}, True),
        ("pay", '{"key": "hunter2hunter2", "amount": 1}', True),
        ("pay", {"amount": 1, "key": "another secret"}, False),
        ("pay", {"amount": 1, "key": MASK}, False),
        ("echo", {"amount": 1, "key": SECRET}, False),
        ("pay", "not json", False),
    ],
)
async def test_an_id_is_used_again_for_the_same_call_alone(name: str, given: Any, same: bool) -> None:
    parts = Parts(Vault())
    call = parts.pending("pay", {"amount": 1, "key": SECRET})
    first, request = parts.store.events_of(call)[0], ToolCall(name, given, id="a", thread="t")
    if same:
        parts.arguments.same_or_conflict(request, first)
    else:
        with pytest.raises(Conflict):
            parts.arguments.same_or_conflict(request, first)


@pytest.mark.parametrize(
    "again", [{"n": 1, "text": 7}, {"text": 7.0, "n": 1}, '{"text": 7, "n": 1}', b' {"n":1,"text":7} ']
)
@pytest.mark.parametrize("refused", [{"text": 7, "n": 1}, '{ "n": 1, "text": 7 }'])
async def test_a_refused_call_is_compared_by_its_fingerprint(refused: Any, again: Any) -> None:
    parts = Parts(Vault())
    call = parts.made("echo", refused)
    assert not parts.pipeline.admit(call)
    parts.journal.commit(call.entry)
    first = parts.store.events_of(call)[0]
    assert "arguments" not in first.data, "refused arguments are not stored"
    parts.arguments.same_or_conflict(ToolCall("echo", again, id="a", thread="t"), first)
    with pytest.raises(Conflict):
        parts.arguments.same_or_conflict(ToolCall("echo", {"text": 8, "n": 1}, id="a", thread="t"), first)


async def test_what_is_to_be_hidden_of_a_call_that_runs_elsewhere() -> None:
    parts = Parts(Vault([KEY]))
    call = parts.pending("pay", {"key": SECRET})
    events = parts.store.events_of(call)
    found = parts.arguments.secrets_of("a", events, None)
    assert found is not None
    assert found.arguments == {"key": MASK}
    assert parts.arguments.secrets_of("a", events, call) is call.secrets
    plain = parts.pending("echo", {"text": "x"}, id="b")
    assert parts.arguments.secrets_of("b", parts.store.events_of(plain), None) is None
