"""Values of sensitive fields are masked in entries, messages, plans and deltas; everything else stays unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest

from clicket.agents.entries import PlanState, Reply, Result, Results
from clicket.agents.sensitive_values import SensitiveValues, masked_deltas
from clicket.model.chat import ChatMessage, Delta, ToolUse, Usage

FIELDS = {"log_in": frozenset({"password", "/card/pin"}), "all": frozenset({"*"})}


def values(*uses: ToolUse) -> SensitiveValues:
    found = SensitiveValues(lambda tool: FIELDS.get(tool, frozenset()))
    found.take(uses)
    return found


def use(name: str = "log_in", id: str = "u1", **arguments: Any) -> ToolUse:
    return ToolUse(id=id, name=name, arguments=json.dumps(arguments))


HORSE = use(user="ann", password="correct-horse", card={"pin": "12", "name": "Ann"}, tries=1234)


def reply(*uses: ToolUse, text: str = "", **more: Any) -> Reply:
    message = ChatMessage(role="assistant", content=text, uses=uses, **more)
    usage = Usage(input_tokens=1234, output_tokens=5)
    return Reply.of(message, mark="react.1", tag="", step=1, usage=usage, total=usage, took=1234.0, at=5.0)


def test_a_turn_without_declared_fields_shows_everything_as_it_is() -> None:
    found = values(use("echo", text="correct-horse"))
    entry = reply(use("echo", text="correct-horse"), text="correct-horse")
    message = ChatMessage(role="assistant", content="correct-horse")
    assert found.entry(entry) is entry
    assert found.message(message) is message
    assert found.text("correct-horse") == "correct-horse"


def test_arguments_are_masked_by_their_places_also_short_ones() -> None:
    shown = values(HORSE).entry(reply(HORSE, text="I try correct-horse", thought="correct-horse?"))
    (use,) = shown.uses
    assert use.name == "log_in"
    assert json.loads(use.arguments) == {
        "user": "ann", "password": "[secret]", "card": {"pin": "[secret]", "name": "Ann"}, "tries": 1234,
    }  # fmt: skip
    assert (shown.text, shown.thought) == ("I try [secret]", "[secret]?")


def test_numbers_of_the_entry_itself_are_not_taken_for_values() -> None:
    pin = use(password=1234)
    entry = reply(pin)
    shown = values(pin).entry(entry)
    assert (shown.usage, shown.took, shown.at) == (entry.usage, entry.took, entry.at)
    assert "1234" not in shown.uses[0].arguments


@pytest.mark.parametrize("arguments", ['{"password": "correct-hor', "[1]", '"x"', "", '{"password": NaN}', "[" * 5000])
def test_arguments_that_cannot_be_read_are_masked_whole(arguments: str) -> None:
    broken = ToolUse(id="u1", name="log_in", arguments=arguments)
    shown = values(broken).entry(reply(broken)).uses[0].arguments
    assert "correct" not in shown
    assert isinstance(json.loads(shown), dict)


@pytest.mark.parametrize(
    "spelt", ['{"password": "correct\\u002dhorse"}', '{"password":"x","password":"correct-horse"}']
)
def test_a_spelling_hides_nothing(spelt: str) -> None:
    odd = ToolUse(id="u1", name="log_in", arguments=spelt)
    shown = values(odd).entry(reply(odd, text="correct-horse"))
    assert json.loads(shown.uses[0].arguments) == {"password": "[secret]"}
    assert shown.text == "[secret]"


def test_results_plans_and_endings_are_masked() -> None:
    found = values(HORSE)
    item = Result.of(HORSE, "c1", "came in with correct-horse")
    assert found.entry(Results(items=[item], took=0.0)).items[0].text == "came in with [secret]"
    body = {"title": "correct-horse", "steps": [{"text": "use correct-horse", "notes": "", "status": "completed"}]}
    shown = found.entry(PlanState(plan=body)).plan
    assert (shown["title"], shown["steps"][0]["text"]) == ("[secret]", "use [secret]")
    assert body["title"] == "correct-horse"  # the turn continues with the real value
    assert found.plan(None) is None


def test_what_only_the_vendor_reads_is_left_out_if_it_holds_a_value() -> None:
    found = values(HORSE)
    assert found.entry(reply(vendor={"raw": "so: correct-horse"})).vendor is None
    assert found.entry(reply(vendor={"raw": "nothing"})).vendor == {"raw": "nothing"}
    message = ChatMessage(role="assistant", content="correct-horse", uses=(HORSE,), vendor={"raw": "correct-horse"})
    shown = found.message(message)
    assert (shown.content, shown.vendor) == ("[secret]", None)
    assert "correct-horse" not in shown.uses[0].arguments
    said = ChatMessage(role="user", content="it is correct-horse")
    assert found.message(said) is said


def test_a_mask_in_a_tool_with_declared_fields_is_noticed() -> None:
    found = values()
    assert found.is_masked(use(password="[secret]"))
    assert found.is_masked(use("all", x=["[secret]"]))
    assert not found.is_masked(use(password="real"))
    assert not found.is_masked(use("echo", text="[secret]"))


def pieces(found: SensitiveValues, *given: Delta) -> list[Delta]:
    deltas: list[Delta] = []
    take, end = masked_deltas(found, deltas.append)
    for piece in given:
        take(piece)
    end()
    return deltas


def test_deltas_of_sensitive_arguments_are_dropped() -> None:
    deltas = pieces(
        values(), Delta("name", "log_in", 0), Delta("arguments", '{"password": "x', 0), Delta("name", "echo", 1),
        Delta("arguments", "{}", 1), Delta("text", "hi"),
    )  # fmt: skip
    assert deltas == [
        Delta("name", "log_in", 0),
        Delta("name", "echo", 1),
        Delta("arguments", "{}", 1),
        Delta("text", "hi"),
    ]


def test_a_value_in_pieces_of_text_is_masked() -> None:
    given = [Delta("text", letter) for letter in "It was correct-horse, yes"]
    deltas = pieces(values(HORSE), *given, Delta("thought", "correct-"), Delta("thought", "horse"))
    assert "".join(piece.text for piece in deltas if piece.kind == "text") == "It was [secret], yes"
    assert "".join(piece.text for piece in deltas if piece.kind == "thought") == "[secret]"
