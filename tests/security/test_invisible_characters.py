"""Where a person decides about a call or reads an id, invisible characters are marked: an account number that is shown backwards, or a
name with a hidden part, must not look like another one. The console has the same table; `tests/browser` shows it there."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from tests.scenarios.kit import make, sqlite_url

from clicket import Policy, Record, Runtime, tool
from clicket.adapters.mcp.app_pages import approvals_page, call_page, result_page
from clicket.adapters.mcp.approvals import approval_request
from clicket.adapters.mcp.elicitation import question_from
from clicket.cli import main
from clicket.cli.formatting import short
from clicket.cli.terminal import clean, clean_lines
from clicket.model import printable
from clicket.model.printable import IN_PROSE, INVISIBLE, escaped, escaped_json, js_class, marked
from clicket.server.approval_html import decision_page
from clicket.telemetry.webhooks.approval_links import Link

TABLE = {
    "embedding, override": "\u202a\u202b\u202c\u202d\u202e", "isolates": "\u2066\u2067\u2068\u2069",
    "direction marks": "\u200e\u200f\u061c", "zero width": "\u200b\u200c\u200d\u2060\ufeff", "operators": "\u2061\u2062\u2063\u2064",
    "soft hyphen, joiner": "\u00ad\u034f", "selectors": "\ufe00\ufe0f\U000e0100\U000e01ef", "tags": "\U000e0001\U000e0041\U000e007f",
    "separators": "\u2028\u2029", "fillers": "\u115f\u1160\u3164\uffa0\u2800", "Mongolian": "\u180b\u180e",
    "annotations": "\ufff9\ufffa\ufffb", "deprecated": "\u206a\u206f", "layout": "\U00013437\U0001bca0\U0001d173",
}  # fmt: skip
CONTROLS = "\x00\x07\x08\x1b\x7f\x80\x85\x9b"
VISIBLE = frozenset(range(0x600, 0x606)) | {0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Format characters with a shape: signs of Arabic, Syriac and Kaithi in front of numbers."""
LETTERS = "IBAN DE89 3704, 中文、かな 한국어 العربية ۱۲۳ עברית देवनागरी ไทย é ñ 👍⚠✅ ｆｕｌｌ　width\u00a0space"
ALL = "".join(TABLE.values())
IBAN = f"DE89{ALL}3704"


@tool
async def pay(to: str) -> str:
    """Pay."""
    return to


def marks_of(characters: str) -> list[str]:
    return [f"⟨U+{ord(each):04X}⟩" for each in characters]


def is_invisible(code: int) -> bool:
    return any(first <= code <= last for first, last in INVISIBLE)


def assert_marked(text: str, where: str) -> None:
    """All characters of the table are in the text as marks, none as itself."""
    assert not set(text) & set(ALL), (where, [hex(ord(each)) for each in set(text) & set(ALL)])
    missing = [mark for mark in marks_of(ALL.replace("\u2028", "").replace("\u2029", "")) if mark not in text]
    assert not missing, where


def test_the_table_has_all_characters_without_a_shape() -> None:
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category in ("Cc", "Cf", "Cs", "Zl", "Zp"):
            assert is_invisible(code) is (code not in VISIBLE), hex(code)
        elif is_invisible(code):
            assert category in ("Mn", "Lo", "Cn", "So", "Mc"), hex(code)  # selectors, fillers, unassigned


def test_marks_and_what_stays() -> None:
    for name, characters in TABLE.items():
        for each in characters:
            assert marked(f"a{each}b") == f"a⟨U+{ord(each):04X}⟩b", name
    assert marked(LETTERS) == LETTERS
    assert marked("a\nb\tc") == "a⟨U+000A⟩b⟨U+0009⟩c"
    assert marked("a\nb\tc", lines=True) == "a\nb\tc"
    assert marked("\ud800") == "⟨U+D800⟩"
    assert marked("<\u202e>", around=("<mark>", "</mark>")) == "<<mark>⟨U+202E⟩</mark>>"
    prose = "🏳\ufe0f\u200d🌈 می\u200cخواهم co\u00adop"
    assert marked(prose, prose=True) == prose
    assert marked(prose).count("⟨U+") == 4
    for first, last in IN_PROSE:
        assert is_invisible(first)
        assert is_invisible(last)
    assert marked("a\u202eb\u200fc\u061c\U000e0041", prose=True) == "a⟨U+202E⟩b⟨U+200F⟩c⟨U+061C⟩⟨U+E0041⟩"


def test_escapes_are_lossless_json_and_readable_logs() -> None:
    text = json.dumps({"to": IBAN}, ensure_ascii=False)
    assert json.loads(escaped_json(text)) == {"to": IBAN}
    assert escaped_json(text).isascii()
    assert escaped("a\u200b\x1b\U000e0041") == "a\\u200b\\x1b\\U000e0041"


def test_the_console_has_the_same_table() -> None:
    source = (Path(__file__).resolve().parents[2] / "web" / "src" / "model" / "printable.ts").read_text()
    classes = re.findall(r"^const (\w+) = /\[(.+)\]/g?u;$", source, re.MULTILINE)
    assert dict(classes) == {"INVISIBLE": js_class(), "EACH": js_class(), "IN_PROSE": js_class(IN_PROSE)}


@pytest.fixture
async def waiting() -> Any:
    """A call that waits, with the characters in every text that a person reads."""
    async with make([pay], policy=Policy(ask=["pay"])) as rt:
        handle = await rt.acting_for(f"ann{ALL}").submit("pay", {"to": IBAN}, id=f"id{ALL}", thread=f"t{ALL}")
        yield await rt.get(handle.id)


def html_surfaces(record: Record) -> Iterator[tuple[str, str]]:
    link = Link(id="l", endpoint="e", question=None, expires_at=0.0, allows=("edit", "respond"))  # type: ignore[arg-type]
    for language in ("en", "zh"):
        yield f"approver page, {language}", decision_page(record, link, language).decode()
    yield "MCP Apps: approvals", approvals_page([record])
    yield "MCP Apps: a call", call_page(record)


def test_pages_show_marks(waiting: Record) -> None:
    for where, page in html_surfaces(waiting):
        shown = re.sub(r"<textarea.*?</textarea>", "", page, flags=re.DOTALL)
        assert_marked(shown, where)
        assert "<mark>⟨U+202E⟩</mark>" in shown, where
        for field in re.findall(r"<textarea.*?</textarea>", page, flags=re.DOTALL):
            assert not set(field) & set(ALL), where
            assert "<mark>" not in field, where


def test_the_arguments_can_be_edited_without_loss(waiting: Record) -> None:
    page = next(html_surfaces(waiting))[1]
    (field,) = re.findall(r'<textarea[^>]*id="arguments"[^>]*>(.*?)</textarea>', page, flags=re.DOTALL)
    assert json.loads(field.replace("&quot;", '"')) == {"to": IBAN}


def test_questions_over_mcp_show_marks(waiting: Record) -> None:
    task: Any = SimpleNamespace(current=waiting, round=1)
    ((_, asked),) = approval_request(task).items()
    assert_marked(asked["params"]["message"], "approval by a client")
    given = types.ElicitRequestFormParams(message=IBAN, requested_schema={"type": "object", "properties": {}})
    assert_marked(question_from("bank", "k", given).message, "question of a server")
    script = result_page()
    assert js_class() in script
    assert not set(script) & set(ALL)


def test_commands_show_marks(waiting: Record) -> None:
    for name, text in {"clean": clean(IBAN), "short": short({"to": IBAN}, 2_000)}.items():
        assert_marked(text, name)
    prose = clean_lines(f"{IBAN}{CONTROLS}")
    assert not set(prose) & set("\u202e\u2066\u200e\u200f\u061c\U000e0041" + CONTROLS)


def test_the_commands_of_approvers_show_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    store = sqlite_url(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "4000")
    monkeypatch.setenv("CLICKET_STORE", store)

    async def fill() -> None:
        async with Runtime([pay], store=store, policy=Policy(ask=["pay"])) as rt:
            await rt.submit("pay", {"to": IBAN}, id=f"id{ALL}", thread=f"t{ALL}")

    asyncio.run(fill())
    for command in (["approve"], ["ps"], ["show", f"id{ALL}", "--thread", f"t{ALL}"]):
        capsys.readouterr()
        assert main(command) == 0
        out = capsys.readouterr().out
        assert_marked(out, " ".join(command[:1]))
    capsys.readouterr()
    assert main(["approve", "--json"]) == 0
    found = capsys.readouterr().out
    assert not set(found) & set(ALL)
    assert json.loads(found)["items"][0]["arguments"] == {"to": IBAN}


@pytest.mark.parametrize("name", ["escaped", "escaped_json", "marked"])
def test_each_invisible_character_is_turned_into_its_mark_once(name: str) -> None:
    """A text of nothing else holds the event loop no longer than needed: the work is that of its different characters."""
    once = {"escaped": printable._escape, "escaped_json": printable._json_escape, "marked": printable._mark}[name]
    once.cache_clear()
    getattr(printable, name)("\u202e\u2066a\u2069\u200b\u00ad" * 1_000)
    assert once.cache_info().misses == 5
