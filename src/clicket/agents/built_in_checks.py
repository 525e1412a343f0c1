"""Checks that come with clicket: personal data, the length of texts, and where links lead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from clicket.agents.check import On
from clicket.agents.turn_limits import check_counts
from clicket.agents.verdicts import Change, Refuse
from clicket.errors import UsageError, did_you_mean
from clicket.model import ToolCall, ToolResult
from clicket.model.text.links import as_rendered, host_of, links_in, plain_host, without_links
from clicket.model.text.personal_data import KINDS, masked

__all__ = ["BUILT_IN", "max_length", "no_urls_outside", "pii"]

_MAX_NAMED = 5


class _BuiltIn:
    """A function for `Check`. `fits`: what it can check. `terms`: what it was made with, for the digest of an agent."""

    name: str
    fits: tuple[On, ...]

    def __init__(self, terms: Iterable[str] = ()) -> None:
        self.terms: tuple[str, ...] = tuple(terms)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(self.terms)})"


class _Pii(_BuiltIn):
    name = "pii"
    fits = ("input", "output", "tool_result")

    def __call__(self, turn: Any, value: str | ToolResult) -> Change | None:
        text = _text_of(value)
        shown = masked(text, self.terms)
        return None if shown == text else Change(shown)


class _MaxLength(_BuiltIn):
    name = "max_length"
    fits = ("input", "output")

    def __init__(self, most: int) -> None:
        super().__init__((str(most),))
        self._most = most

    def __call__(self, turn: Any, value: str) -> Refuse | None:
        if len(value) <= self._most or turn.branch:  # the result of one step of a plan is not an answer
            return None
        return Refuse(f"It has {len(value):,} characters, and may have {self._most:,}: make it shorter.")


class _NoUrlsOutside(_BuiltIn):
    name = "no_urls_outside"
    fits = ("input", "output", "tool_call", "tool_result")

    def __init__(self, hosts: Iterable[str]) -> None:
        super().__init__(sorted(hosts))
        self._exact = frozenset(host for host in self.terms if not host.startswith("*."))
        self._beneath = tuple(host[1:] for host in self.terms if host.startswith("*."))

    def _allows(self, link: str) -> bool:
        host = host_of(link)
        return host in self._exact or host.endswith(self._beneath or "\0")

    def __call__(self, turn: Any, value: str | ToolCall | ToolResult) -> Change | Refuse | None:
        text = _text_of(value)
        if isinstance(value, ToolResult):
            allowed = {link: self._allows(link) for link in links_in(text)}
            return None if all(allowed.values()) else Change(without_links(text, allowed, "[link removed]"))
        wrong = {
            host_of(link) or link
            for each in (text, as_rendered(text))
            for link in links_in(each)
            if not self._allows(link)
        }
        if not wrong:
            return None
        named = ", ".join(sorted(wrong)[:_MAX_NAMED])
        return Refuse(
            f"It has links to hosts that are not allowed: {named}. Allowed: {', '.join(self.terms) or 'none'}."
        )


def _text_of(value: Any) -> str:
    if isinstance(value, ToolResult):
        return value.content
    return "\n".join(_texts_in(value.arguments)) if isinstance(value, ToolCall) else str(value)


def _texts_in(arguments: Any) -> Iterator[str]:
    """All texts in the arguments of a call, without the escapes of JSON."""
    left = [arguments]
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping):
            left += (*part.keys(), *part.values())
        elif isinstance(part, list | tuple):
            left += part


def pii(kinds: Iterable[str] = KINDS) -> _Pii:
    """For `Check(pii(), on="output")`, also of `input` and `tool_result`: masks e-mail addresses, phone numbers, card numbers with a valid
    digit of Luhn and IBANs with a valid checksum, as `[email]`, `[phone]`, `[card]`, `[iban]`. `kinds`: some of these."""
    if not isinstance(kinds, Iterable):
        raise UsageError(f"pii(kinds=…) takes a list of kinds, not {kinds!r:.60}.")
    chosen = [kinds] if isinstance(kinds, str) else list(kinds)
    for kind in chosen:
        if kind not in KINDS:
            raise UsageError(
                f"pii(kinds=…): there is no kind {kind!r:.60}.{did_you_mean(str(kind), KINDS)} Known: {', '.join(KINDS)}."
            )
    if not chosen:
        raise UsageError(f"pii(kinds=…) needs at least one of {', '.join(KINDS)}.")
    return _Pii(sorted(set(chosen)))


def max_length(characters: int) -> _MaxLength:
    """For `Check(max_length(2000), on="output")`, also of `input`: refuses a text of more characters."""
    check_counts(1, max_length=characters)
    return _MaxLength(characters)


def no_urls_outside(hosts: Iterable[str]) -> _NoUrlsOutside:
    """For `Check(no_urls_outside(["example.com", "*.example.com"]), on="output")`: refuses a text, or the arguments of a call, with a link
    to another host, and takes such links out of a `tool_result`. `*.` stands for all hosts beneath one. Names without a scheme or `www.`
    are not links."""
    if isinstance(hosts, str) or not isinstance(hosts, Iterable):
        raise UsageError(f"no_urls_outside takes a list of hosts: write no_urls_outside([{hosts!r:.60}]).")
    listed = list(hosts)
    for host in listed:
        if not isinstance(host, str) or not host.removeprefix("*.") or set(host.removeprefix("*.")) & set("/:@*?# "):
            raise UsageError(f"no_urls_outside: {host!r:.60} is not a host, such as 'example.com' or '*.example.com'.")
    return _NoUrlsOutside(
        {f"*.{plain_host(host[2:])}" if host.startswith("*.") else plain_host(host) for host in listed}
    )


BUILT_IN: dict[str, Callable[..., Callable[..., Any]]] = {
    "pii": pii,
    "max_length": max_length,
    "no_urls_outside": no_urls_outside,
}
"""As configuration names them."""
