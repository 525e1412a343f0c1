"""One file per command. A command is a function of a `Session` and its own options; it prints, or raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clicket.cli.commands import cache, keys
from clicket.cli.commands.approve import approve, deny
from clicket.cli.commands.audit import audit
from clicket.cli.commands.bench import bench
from clicket.cli.commands.call import call
from clicket.cli.commands.cancel import cancel
from clicket.cli.commands.chat import chat
from clicket.cli.commands.code import code
from clicket.cli.commands.config import config
from clicket.cli.commands.demo import demo
from clicket.cli.commands.doctor import doctor
from clicket.cli.commands.gc import gc
from clicket.cli.commands.index import index
from clicket.cli.commands.mcp import mcp
from clicket.cli.commands.ps import ps
from clicket.cli.commands.recover import recover
from clicket.cli.commands.report import report
from clicket.cli.commands.search import search
from clicket.cli.commands.serve import serve
from clicket.cli.commands.show import show
from clicket.cli.commands.states import reset, states
from clicket.cli.commands.tail import tail
from clicket.cli.commands.tools import tools
from clicket.cli.commands.worker import worker

__all__ = ["COMMANDS", "GROUPS"]

COMMANDS: dict[str, Callable[..., Any]] = {
    "demo": demo,
    "serve": serve,
    "call": call,
    "code": code,
    "index": index,
    "search": search,
    "chat": chat,
    "ps": ps,
    "show": show,
    "tail": tail,
    "cancel": cancel,
    "approve": approve,
    "deny": deny,
    "audit": audit,
    "tools": tools,
    "states": states,
    "reset": reset,
    "report": report,
    "mcp": mcp,
    "worker": worker,
    "recover": recover,
    "gc": gc,
    "config": config,
    "bench": bench,
    "doctor": doctor,
}
"""In the order in which `clicket --help` lists them."""

GROUPS: dict[str, tuple[str, dict[str, Callable[..., Any]]]] = {
    "cache": (
        "Look at cached results, or remove them.",
        {"stats": cache.stats, "list": cache.items, "clear": cache.clear},
    ),
    "keys": (
        "Make, list and revoke API keys of the server.",
        {"create": keys.create, "list": keys.listing, "revoke": keys.revoke},
    ),
}
"""Commands of two words: the first, what it is about, and the second words."""
