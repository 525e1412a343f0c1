"""One file per command. A command is a function of a `Session` and its own options; it prints, or raises.

A command's file is imported when the command is used: `clicket --help` reads this table alone.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["COMMANDS", "GROUPS", "Entry"]


class Entry(NamedTuple):
    """Where a command is, and the first line of its help."""

    module: str
    function: str
    about: str

    def load(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(f"{__name__}.{self.module}"), self.function)
        return function


COMMANDS: dict[str, Entry] = {
    "demo": Entry(
        "demo",
        "demo",
        "Take a tour in half a minute: calls that succeed and fail, recovery after kill -9, and an agent that survives it. Needs nothing.",
    ),
    "serve": Entry("serve", "serve", "Serve the tools over HTTP."),
    "call": Entry("call", "call", "Run a tool and print its output."),
    "code": Entry("code", "code", "Run a Markdown file as a live notebook, in the sandbox."),
    "index": Entry(
        "index",
        "index",
        "Make folders of files searchable: text, Markdown, HTML, PDF, Office, notebooks, JSON Lines, source code.",
    ),
    "search": Entry("search", "search", "Answer a question from your documents, or from the web, with sources."),
    "chat": Entry("chat", "chat", "Talk to an agent that uses your tools, with every tool call live."),
    "ps": Entry("ps", "ps", "List calls, newest first unless told otherwise."),
    "show": Entry("show", "show", "Show a call: its timeline, arguments, result, error."),
    "tail": Entry("tail", "tail", "Follow a call's events live, also when another process runs it."),
    "cancel": Entry("cancel", "cancel", "End a call, also one that another process runs."),
    "approve": Entry("approve", "approve", "Let a call run that waits for approval."),
    "deny": Entry("approve", "deny", "Refuse a call that waits for approval."),
    "audit": Entry("audit", "audit", "List who approved, denied, reset or cleared what, and what the policy refused."),
    "tools": Entry("tools", "tools", "List the tools that were found, or show one with the schema of its input."),
    "states": Entry(
        "states", "states", "Show which tools a thread may use now, why not the others, and what to call first."
    ),
    "reset": Entry(
        "states",
        "reset",
        "Make a tool that failed, or was taken out by hand, available again in a thread.",
    ),
    "report": Entry(
        "report", "report", "Show counts, success rates and run times by tool, and the tools that look ill."
    ),
    "mcp": Entry("mcp", "mcp", "Serve the tools to an MCP client over stdin and stdout."),
    "worker": Entry(
        "worker",
        "worker",
        "Claim and run waiting calls of the tools, until told to stop; turns of declared agents that were cut off, too.",
    ),
    "recover": Entry("recover", "recover", "Take over what dead owners left, and say what became of it."),
    "gc": Entry(
        "gc",
        "gc",
        "Remove ended calls, with their artifacts, that are older than the retention or beyond another bound.",
    ),
    "config": Entry("config", "config", "Show each setting and where its value came from."),
    "bench": Entry(
        "bench",
        "bench",
        "Measure what a call costs here: in memory, on SQLite, and on SQLite with a disk that must have it.",
    ),
    "doctor": Entry(
        "doctor", "doctor", "Check this machine and this configuration, and say what to do about what is wrong."
    ),
}
"""In the order in which `clicket --help` lists them."""

GROUPS: dict[str, tuple[str, dict[str, Entry]]] = {
    "cache": (
        "Look at cached results, or remove them.",
        {
            "stats": Entry(
                "cache", "stats", "Show how many results are cached, how much they take, and how often they served."
            ),
            "list": Entry("cache", "items", "List cached results, those that expire first before the others."),
            "clear": Entry(
                "cache", "clear", "Remove cached results: all of them, those with a tag, those that are old."
            ),
        },
    ),
    "keys": (
        "Make, list and revoke API keys of the server.",
        {
            "create": Entry("keys", "create", "Make a key. It is shown this once; the store keeps only a hash of it."),
            "list": Entry("keys", "listing", "List every key, without its secret."),
            "revoke": Entry("keys", "revoke", "Make a key worthless: at once, and for every server over this store."),
        },
    ),
}
"""Commands of two words: the first, what it is about, and the second words."""
