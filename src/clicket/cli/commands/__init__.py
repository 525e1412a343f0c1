"""One module per command. A command is a function of a `Context` and its own options; it prints, or raises.

A command's module is imported when the command is used: `clicket --help` only reads the table `COMMANDS`.

- `demo`, `doctor`, `config`, `bench`: the tour; checks of this machine; settings and their sources; what a call costs here
- `call`, `code`, `index`, `search`, `chat`: run a tool, a notebook, an index of files, a deep search, an agent
- `serve`, `worker`, `mcp`: serve over HTTP; run waiting calls of a store; serve or list tools over MCP
- `evals` (`eval` and `cases`): judge agents by cases; make cases of turns on record
- `ps`, `threads`, `show`, `tail`: list calls; list conversations; one call; events as they happen
- `approve` (and `deny`, `respond`), `grants`, `cancel`, `again`, `undo`, `audit`: decide about calls; run one again; undo one; the
  log of decisions
- `fork`, `forks`, `rerun`: a new thread from any turn or step of another; the tree of forks; a turn run again without its effects
- `tools`, `states` (and `reset`): tools; which of them a thread may use
- `schedules`: calls that are made again and again
- `workers`, `dead` (and `requeue`): workers over the store; calls that were given up
- `unknown` (and `resolve`): calls whose outcome is unknown; settling one
- `external` (`complete` and `fail`): ending a call from outside, with its token
- `notices`: what webhooks got; sending one again
- `recover`, `gc`, `cache`: take over calls of dead owners; remove old calls; cached results
- `report`, `series`, `spend`: statistics; statistics over time; tokens and money
- `memory`: what agents remember about a caller, and forgetting one
- `keys`, `credentials`: API keys of the server; credentials of callers for services outside
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

__all__ = ["ALONE", "COMMANDS", "GROUPS", "Entry"]


class Entry(NamedTuple):
    """The module and function of a command, and the first line of its help."""

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
    "serve": Entry("serve", "serve", "Serve the tools over HTTP, and the console at `/`."),
    "call": Entry("call", "call", "Run a tool and print its output."),
    "code": Entry("code", "code", "Run a Markdown file as a live notebook, in the sandbox."),
    "index": Entry(
        "index",
        "index",
        "Make folders of files searchable: text, Markdown, HTML, PDF, Office, notebooks, JSON Lines, source code.",
    ),
    "search": Entry("search", "search", "Answer a question from your documents, or from the web, with sources."),
    "chat": Entry("chat", "chat", "Chat with an agent that uses your tools, and watch its tool calls."),
    "eval": Entry(
        "evals",
        "evaluate",
        "Run cases with agents, and judge what they do.",
    ),
    "cases": Entry("evals", "cases", "Write turns that are on record to a file, as cases for `clicket eval`."),
    "ps": Entry("ps", "ps", "List calls, by default the active ones, newest first."),
    "threads": Entry(
        "threads", "threads", "List threads with their last activity, counts of calls and agents, newest first."
    ),
    "fork": Entry(
        "forks",
        "fork",
        "Make a new thread with the turns of another one, up to a turn or a step. The old one is not changed.",
    ),
    "forks": Entry("forks", "forks", "List the forks of a thread, and theirs."),
    "rerun": Entry(
        "forks",
        "rerun",
        "Run a turn again, in a fork of its thread. Tool calls on record get their recorded results, and do not run.",
    ),
    "show": Entry("show", "show", "Show a call: its timeline, arguments, result and error."),
    "tail": Entry("tail", "tail", "Print a call's events as they happen, in whichever process it runs."),
    "cancel": Entry(
        "cancel", "cancel", "Cancel a call, also one that another process runs, or all that a filter finds."
    ),
    "again": Entry("again", "again", "Run a call again, as a new call, also with other arguments."),
    "undo": Entry("undo", "undo", "Undo a call, or all calls of a turn, the last one first."),
    "approve": Entry("approve", "approve", "Approve a call that waits for approval, so that it runs."),
    "deny": Entry("approve", "deny", "Deny a call that waits for approval, so that it fails."),
    "respond": Entry(
        "approve", "respond", "Answer a call that waits for approval, in its tool's place, so that it completes."
    ),
    "audit": Entry(
        "audit",
        "audit",
        "List the audit log: who approved, denied, reset or cleared what, and what the policy refused.",
    ),
    "dead": Entry(
        "dead", "dead", "List calls that were given up: failed for good, out of time, of unknown outcome, or damaged."
    ),
    "requeue": Entry("dead", "requeue", "Run calls that were given up again, as new calls that wait for a worker."),
    "unknown": Entry("unknown", "unknown", "List calls whose outcome is unknown and not settled, the oldest first."),
    "resolve": Entry("unknown", "resolve", "Settle a call whose outcome is unknown: say whether it happened."),
    "complete": Entry("external", "complete", "Complete a call that waits for a result from outside, with its token."),
    "fail": Entry("external", "fail", "Fail a call that waits for a result from outside, with its token."),
    "notices": Entry("notices", "notices", "List notices to webhooks, newest first, or send some again."),
    "tools": Entry("tools", "tools", "List the tools, or show one with its input schema."),
    "states": Entry(
        "states", "states", "Show which tools a thread may use now, why not the others, and which to call first."
    ),
    "reset": Entry(
        "states",
        "reset",
        "Make a tool that failed, or was disabled by hand, available again in a thread.",
    ),
    "report": Entry("report", "report", "Show counts, success rates and run times by tool, and anomalies."),
    "spend": Entry("spend", "spend", "Show what agents and tools spent, and what is left of the budgets."),
    "series": Entry("series", "series", "Show counts, errors, run times or queue lengths over time."),
    "mcp": Entry("mcp", "mcp", "Serve the tools to an MCP client over stdin and stdout."),
    "worker": Entry(
        "worker",
        "worker",
        "Claim and run waiting calls of the tools, and interrupted turns of declared agents, until a signal stops it.",
    ),
    "recover": Entry("recover", "recover", "Take over the calls of dead owners, and report their outcomes."),
    "gc": Entry(
        "gc",
        "gc",
        "Remove ended calls and their artifacts that are older than the retention, or exceed another limit.",
    ),
    "forget": Entry(
        "memory",
        "forget",
        "Remove everything that the store has of a caller: threads, calls and their outcomes, artifacts, memory and queued messages.",
    ),
    "config": Entry("config", "config", "Show each setting and the source of its value."),
    "bench": Entry(
        "bench",
        "bench",
        "Measure what a call costs here: in memory, on SQLite, and on SQLite with a sync to disk.",
    ),
    "doctor": Entry("doctor", "doctor", "Check this machine and this configuration, and advise on what is wrong."),
}
"""In the order in which `clicket --help` lists them."""

GROUPS: dict[str, tuple[str, dict[str, Entry]]] = {
    "grants": (
        "List or revoke approvals that also let later calls run. Without a subcommand: list.",
        {
            "list": Entry("grants", "list_grants", "List the approvals that also let later calls run."),
            "revoke": Entry("grants", "revoke", "Revoke a grant: at once, for every process over this store."),
        },
    ),
    "credentials": (
        "Credentials of callers for services outside: put, revoke, link. Without a subcommand: list.",
        {
            "list": Entry("credentials", "list_credentials", "List credentials of callers, without their secrets."),
            "put": Entry(
                "credentials",
                "put",
                "Keep a token for a service, encrypted. It is asked for on the terminal, or read from stdin.",
            ),
            "revoke": Entry(
                "credentials",
                "revoke",
                "Delete a credential's secret. Calls that run keep what they have; the next call waits.",
            ),
            "link": Entry(
                "credentials",
                "link",
                "Print a link to the server's page on which a person connects an account. It works once.",
            ),
        },
    ),
    "memory": (
        "What agents remember about a caller: edit, forget. Without a subcommand: list.",
        {
            "list": Entry("memory", "list_facts", "List what agents remember about a caller."),
            "edit": Entry("memory", "edit_fact", "Replace the text of a fact. The next turns read the new one."),
            "forget": Entry("memory", "forget_fact", "Forget one fact."),
        },
    ),
    "workers": (
        "List the workers over the store, drain or cordon them. Without a subcommand: list.",
        {
            "list": Entry(
                "workers", "list_workers", "List the workers: host, process, tools, load, state and last sign of life."
            ),
            "drain": Entry(
                "workers", "drain", "Let workers finish what runs there, hand over what waits, and take nothing new."
            ),
            "cordon": Entry("workers", "cordon", "Let workers take no new calls."),
            "uncordon": Entry("workers", "uncordon", "Let workers take calls again."),
        },
    ),
    "schedules": (
        "Calls that are made again and again: add, pause, resume, remove. Without a subcommand: list.",
        {
            "list": Entry(
                "schedules", "list_schedules", "List the schedules: when, what, and what became of the last times."
            ),
            "add": Entry("schedules", "add", "Make or change a schedule: a cron form, a tool and its arguments."),
            "show": Entry("schedules", "show", "Show a schedule, and what became of its last times."),
            "next": Entry("schedules", "next_times", "Print the next times of a schedule."),
            "pause": Entry("schedules", "pause", "Let schedules fire no more until they are resumed."),
            "resume": Entry("schedules", "resume", "Let paused schedules fire again, from their next times on."),
            "remove": Entry("schedules", "remove", "Remove schedules; their calls stay."),
        },
    ),
    "cache": (
        "Show or remove cached results.",
        {
            "stats": Entry("cache", "stats", "Show the number and size of cached results, and the hit rate."),
            "list": Entry("cache", "list_results", "List cached results, those that expire soonest first."),
            "clear": Entry("cache", "clear", "Remove cached results: all of them, or those with a tag, or old ones."),
        },
    ),
    "keys": (
        "Make, list and revoke API keys of the server.",
        {
            "create": Entry("keys", "create", "Make a key. It is shown only once; the store keeps a hash of it."),
            "list": Entry("keys", "list_keys", "List the keys, without their secrets."),
            "revoke": Entry("keys", "revoke", "Revoke a key: at once, for every server over this store."),
        },
    ),
}
"""Commands with subcommands: the name, its help, and the subcommands."""

ALONE = frozenset({"credentials", "grants", "memory", "schedules", "workers"})
"""First words that may stand alone: they mean `list`."""
