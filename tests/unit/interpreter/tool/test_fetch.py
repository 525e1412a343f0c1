"""`fetch` of programs: declared hosts alone, checked addresses, nothing followed."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from clicket.errors import UsageError
from clicket.interpreter.tool.fetch import Egress


@pytest.mark.parametrize(
    ("declared", "url", "covered"),
    [
        ("api.example.com", "https://api.example.com/x?y", True),
        ("api.example.com", "https://API.example.com./x", True),
        ("api.example.com", "https://api.example.com:443/", True),
        ("api.example.com", "http://api.example.com/", False),
        ("api.example.com", "https://api.example.com:8443/", False),
        ("api.example.com", "https://evil.com/api.example.com", False),
        ("api.example.com", "https://api.example.com.evil.com/", False),
        ("api.example.com", "https://xapi.example.com/", False),
        ("*.example.com", "https://a.b.example.com/", True),
        ("*.example.com", "https://example.com/", False),
        ("*.example.com", "https://badexample.com/", False),
        ("http://10.0.0.5:8080", "http://10.0.0.5:8080/", True),
        ("http://10.0.0.5:8080", "http://10.0.0.5/", False),
        ("https://[2001:db8::1]", "https://[2001:db8::1]/", True),
    ],
)
def test_what_a_declared_host_covers(declared: str, url: str, covered: bool) -> None:
    assert Egress.parse(declared).covers(urlsplit(url)) is covered


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "*",
        "*.com",
        "a.*.com",
        "ftp://a.b",
        "https://a.b/path",
        "https://u@a.b",
        "a b.com",
        "https://a.b:x",
        "ex*mple.com",
    ],
)
def test_what_is_no_host_is_refused(wrong: str) -> None:
    with pytest.raises(UsageError, match="egress"):
        Egress.parse(wrong)


def test_hosts_are_shown_with_their_scheme() -> None:
    assert [Egress.parse(each).text for each in ("api.example.com", "http://a.b:80", "https://a.b:8443")] == [
        "https://api.example.com",
        "http://a.b",
        "https://a.b:8443",
    ]
