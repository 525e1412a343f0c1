"""Which texts look like a key, and which only nearly do."""

from __future__ import annotations

import secrets
import string
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clicket.safety.vault import MASK, has_marker, hide_text
from clicket.safety.vault.shapes import open_from, spans
from clicket.safety.vault.values import Values

_BODY = "aB3" * 20
PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----"
TOKENS = {
    "OpenAI": f"sk-{_BODY[:48]}",
    "OpenAI project": f"sk-proj-{_BODY[:48]}",
    "Anthropic": f"sk-ant-api03-{_BODY}",
    "GitHub classic": f"ghp_{_BODY[:36]}",
    "GitHub app": f"gho_{_BODY[:36]}",
    "GitHub fine-grained": f"github_pat_{_BODY}",
    "GitLab": f"glpat-{_BODY[:20]}",
    "Slack": f"xoxb-1234567890-{_BODY[:24]}",
    "AWS": "AKIAIOSFODNN7EXAMPLE",
    "AWS session": "ASIAIOSFODNN7EXAMPLE",
    "Google": f"AIza{_BODY[:35]}",
    "npm": f"npm_{_BODY[:36]}",
    "Hugging Face": f"hf_{_BODY[:34]}",
    "PyPI": f"pypi-AgEIcHlwaS5vcmc{_BODY}",
    "Stripe": f"sk_live_{_BODY[:24]}",
    "clicket": f"ck_a1b2_{_BODY[:43]}",
    "JWT": f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.{_BODY[:43]}",
    "PEM": PEM,
}
AROUND = ["{}", "key={}", '{{"k": "{}"}}', "say {}, please", "({})", "?t=%3D{}", r"a\n{}", "{}\n", "x {}; y {}"]


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
def test_a_token_is_hidden_whatever_stands_around_it(token: str) -> None:
    for around in AROUND:
        assert hide_text(around.format(token, token)) == around.format(MASK, MASK)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abcDEF1234567890abcd", f"Authorization: Bearer {MASK}"),
        ("authorization: bearer abcdef1234567890", f"authorization: bearer {MASK}"),
        ("Authorization: Basic dXNlcjpwYXNzd29yZA==", f"Authorization: Basic {MASK}"),
        ("postgresql://user:hunter2@db/x", f"postgresql://user:{MASK}@db/x"),
        ("redis://:hunter2@localhost:6379/0", f"redis://:{MASK}@localhost:6379/0"),
        (
            "https://hooks.slack.com/services/T00000000/B00000000/aBcDeFgHiJkL",
            f"https://hooks.slack.com/services/{MASK}",
        ),
        (PEM[:60], MASK),
    ],
)
def test_only_the_secret_part_is_hidden(text: str, shown: str) -> None:
    assert hide_text(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "task-force-one-two-three-four-five",
        "a desk-lamp-with-a-very-long-name",
        "sk-learn-compatible-estimators-guide",
        "the bearer of good news is here, and of bad news",
        "http://localhost:8080/path?user=a@b.example",
        "mail somebody@example.com about ftp://host/file",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "eyJust.a.text with dots that is long enough",
        "stack_overflow_is_a_site and truck_drivers_know_it_well",
        "sha256-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "01a1de76a06e76a193b97572354bba9c",
    ],
)
def test_what_only_looks_a_little_like_it_is_left_alone(text: str) -> None:
    assert hide_text(text) == text


@given(st.text(string.ascii_letters + string.digits + "_-", min_size=16, max_size=60), st.text("xyz ä\n", max_size=20))
def test_no_token_passes_without_a_marker_being_seen(body: str, before: str) -> None:
    text = f"{before} ghp_{body}"
    assert has_marker(text)
    assert body not in hide_text(text)


@given(st.text(max_size=300))
def test_hiding_twice_is_hiding_once(text: str) -> None:
    assert hide_text(hide_text(text)) == hide_text(text)


@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=5), st.text("abcd", max_size=40))
def test_spans_are_in_order_and_apart(values: list[str], text: str) -> None:
    found = spans(text, Values(tuple(values)))
    assert all(start < end for start, end in found)
    assert all(a[1] < b[0] for a, b in pairwise(found))
    left = "".join(
        text[a:b] for a, b in zip([0, *(e for _, e in found)], [*(s for s, _ in found), len(text)], strict=True)
    )
    assert not found or len(left) < len(text)


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
def test_what_is_cut_in_the_middle_of_a_token_may_go_on(token: str) -> None:
    for at in range(4, len(token) - 1):
        assert open_from(f"see {token[:at]}") <= 4 + 2, token[:at]


HOSTILE = [
    "sk-", "sk-a ", "eyJ", "eyJeyJeyJ.", "eyJaaaa.eyJ", "AKIA", "AIza", "xox", "xoxb-", "://", "://a:", "://a:b@", "@", "Bearer ",
    "bearer", "Authorization: ", "Authorization: Basic ", "hooks.slack.com/", "hooks.slack.com/a/", "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN A PRIVATE KEY-----x-----END PRIVATE ", "ghp_", "ck_ck_", "npm_", "%20sk-",
]  # fmt: skip


@pytest.mark.parametrize("end", ["", " ", "-----END PRIVATE KEY-----"])
def test_no_text_takes_long(end: str) -> None:
    """Each would take minutes if every marker scanned all of the rest."""
    for part in HOSTILE:
        text = part * (200_000 // len(part)) + end
        hide_text(text)
        open_from(text, Values(("s", "secret value")))


def test_a_megabyte_without_markers_is_looked_at_and_left_alone() -> None:
    text = secrets.token_hex(1_000_000)
    assert hide_text(text) is text
