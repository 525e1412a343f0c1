"""`pii`, `max_length`, `no_urls_outside`: what they find, what they leave, and that no text breaks them."""

from __future__ import annotations

import string
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.agents import Change, Refuse, max_length, no_urls_outside, pii
from clicket.kernel import State
from clicket.model import ToolCall, ToolResult
from clicket.model.text.personal_data import KINDS, masked

TURN: Any = SimpleNamespace(branch="")


def result(text: str) -> ToolResult:
    return ToolResult(call_id="c", tool="t", state=State.COMPLETED, content=text, output=text)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ann@example.com", "[email]"),
        ("<ann.lee+news@mail.example.co.uk>, thanks", "<[email]>, thanks"),
        ("mailto:ann@example.com?subject=x", "mailto:[email]?subject=x"),
        ("jürgen@müller.de", "[email]"),
        ("邮箱是zhang@qq.com。", "邮箱是[email]。"),
        ("npm i react@18.2.0", None),
        ("@ann or ann@localhost", None),
        ("4111 1111 1111 1111", "[card]"),
        ("card 4111-1111-1111-1111 until 2027", "card [card] until 2027"),
        ("4111111111111111 12", "[card] 12"),
        ("4111.1111.1111.1111", "[card]"),
        ("378282246310005", "[card]"),
        ("４１１１ １１１１ １１１１ １１１１", "[card]"),
        ("4111 1111 1111 1112", None),
        ("[image ab4111111111111111cdef0123456789abcdef0123456789abcdef0123456789ab]", None),
        ("abc4111111111111111", "abc[card]"),
        ("order 9111111111111115", None),
        ("DE89 3704 0044 0532 0130 00", "[iban]"),
        ("pay DE89370400440532013000, now", "pay [iban], now"),
        ("gb29nwbk60161331926819 is mine", "[iban] is mine"),
        ("DE89 3704 0044 0532 0130 00 is mine", "[iban] is mine"),
        ("NO93 8601 1117 947", "[iban]"),
        ("DE88 3704 0044 0532 0130 00", None),
        ("DE89370400440532013000X", None),
        ("ZZ12 ABCD EFGH DE89 3704 0044 0532 0130 00", "ZZ12 ABCD EFGH [iban]"),
        ("+49 30 901820", "[phone]"),
        ("call +1 (415) 555-2671.", "call [phone]."),
        ("0049 30 9018200", "[phone]"),
        ("(415) 555-2671", "[phone]"),
        ("030 9018 2000", "[phone]"),
        ("手机13812345678。", "手机[phone]。"),
        ("手机：13812345678", "手机：[phone]"),
        ("138 1234 5678", "[phone]"),
        ("2024-01-15", None),
        ("01.02.2024 10:30", None),
        ("192.168.100.200", None),
        ("3.14159265358979", None),
        ("ISBN 978-3-16-148410-0", None),
        ("1234567890", None),
        ("$1,000,000.00 in 2,024 parts", None),
    ],
)
def test_what_is_masked(text: str, shown: str | None) -> None:
    found = pii()(TURN, text)
    assert (found and found.value) == shown
    of_result = pii()(TURN, result(text))
    assert (of_result and of_result.value) == shown


def test_only_the_chosen_kinds_are_masked() -> None:
    text = "ann@example.com +49 30 901820"
    assert pii(["email"])(TURN, text) == Change("[email] +49 30 901820")
    assert pii("phone")(TURN, text) == Change("ann@example.com [phone]")


def luhn(digits: str) -> str:
    total = sum(sum(divmod(int(digit) * (2 - place % 2), 10)) for place, digit in enumerate(reversed(digits)))
    return digits + str(-total % 10)


def iban(country: str, account: str) -> str:
    left = int("".join(str(int(sign, 36)) for sign in f"{account}{country}00")) % 97
    return f"{country}{98 - left:02d}{account}"


DIGITS = st.text(string.digits, min_size=11, max_size=17)
WORDS = st.text(st.sampled_from("ab ,;:!?()\n"), max_size=20)
SIGNS = st.text(st.sampled_from("0123456789 .-+()/@aA:"), max_size=80)


@given(st.sampled_from("23456"), DIGITS, WORDS, WORDS)
def test_each_card_number_is_found(first: str, rest: str, before: str, after: str) -> None:
    number = luhn(first + rest)
    spaced = " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    for shown in (number, spaced):
        assert masked(f"{before} {shown} {after}", ["card"]) == f"{before} [card] {after}"


@given(st.text(string.digits, min_size=18, max_size=18), WORDS)
def test_each_iban_is_found(account: str, after: str) -> None:
    number = iban("DE", account)
    spaced = " ".join(number[place : place + 4] for place in range(0, len(number), 4))
    for shown in (number, number.lower(), spaced):
        assert masked(f"to {shown} {after}", ["iban"]) == f"to [iban] {after}"


@given(st.one_of(SIGNS, st.text()))
def test_masking_never_fails_and_leaves_nothing_to_mask(text: str) -> None:
    once = masked(text, KINDS)
    assert masked(once, KINDS) == once
    assert len(text) < 8 or once or not text


@pytest.mark.parametrize(("text", "fits"), [("a" * 10, True), ("a" * 11, False), ("", True)])
def test_a_text_may_have_so_many_characters(text: str, fits: bool) -> None:
    found = max_length(10)(TURN, text)
    assert (found is None) is fits
    assert found is None or "11 characters" in found.text
    assert max_length(10)(SimpleNamespace(branch="1-1"), text) is None, "the result of a step of a plan is no answer"


@pytest.mark.parametrize(
    "text",
    [
        "no link at all: 1//2, a:// b, http:",
        "https://example.com",
        "see [it](https://EXAMPLE.com:443/a?b=c#d).",
        "https://docs.beneath.org/x and https://a.b.beneath.org",
        "https://user@example.com/",
        "https://example.com。",
        "https://example.com，谢谢",
        "https://bücher.example/x https://xn--bcher-kva.example",
        "`//example.com/x`",
        "# // a comment",
    ],
)
def test_links_to_allowed_hosts_pass(text: str) -> None:
    check = no_urls_outside(["example.com", "*.beneath.org", "bücher.example"])
    assert check(TURN, text) is None
    assert check(TURN, result(text)) is None


@pytest.mark.parametrize(
    "text",
    [
        "https://evil.com",
        "![x](https://evil.com/?q=secret)",
        "HTTPS://EVIL.COM",
        "https:evil.com",
        "https:/evil.com",
        r"https:\\evil.com",
        "[x](//evil.com/a)",
        "www.evil.com",
        "ftp://evil.com wss://evil.com",
        "https://example.com@evil.com",
        r"https://example.com\@evil.com https://evil.com",
        "https://example.com.evil.com",
        "https://evil-example.com",
        "https://beneath.org.evil.com",
        "https://example.com%2eevil.com",
        "https://example.com，@evil.com",
        "https://example.com。evil.com",
        "https&#58;//evil.com",
        r"[x](https\://evil.com)",
        "https://[::1]/",
        "https://beneath.org",
    ],
)
def test_links_to_other_hosts_are_refused(text: str) -> None:
    check = no_urls_outside(["example.com", "*.beneath.org"])
    found = check(TURN, text)
    assert isinstance(found, Refuse)
    assert "Allowed: *.beneath.org, example.com" in found.text
    assert isinstance(check(TURN, ToolCall("fetch", {"url": text})), Refuse)


def test_links_are_taken_out_of_results() -> None:
    text = "a https://evil.com/x?y b https://example.com c"
    found = no_urls_outside(["example.com"])(TURN, result(text))
    assert found == Change("a [link removed] b https://example.com c")


@given(st.text())
def test_any_text_can_be_looked_at_for_links(text: str) -> None:
    no_urls_outside(["example.com"])(TURN, f"https://{text}")
