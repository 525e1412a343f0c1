"""Rewrites docs/reference/*.md and docs/llms.txt from the code and the pages, which are the single source. `--check` changes nothing.

It also reports broken links, and translated pages whose code differs from the original's.

What the code does not contain (the purpose of an option) is here in tables; one that misses a name, or has one too many, stops
the script, so that the reference is always complete.
"""

from __future__ import annotations

import enum
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

sys.path.insert(0, str(Path(__file__).parent))
from settings_page import settings_pages  # beside this script

DOCS = Path(__file__).resolve().parents[1] / "docs"
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
MADE = "<!-- made by scripts/docs.py from the code; do not edit -->"

# name: (its purpose, whether it has an effect in this version)
OPTIONS = {
    "name": ("The tool's name; the function's unless given. Letters, digits, `_`, `-`, `.`, up to 128.", True),
    "description": ("What the model reads; from the docstring unless given.", True),
    "version": ("Kept with every call of the tool.", True),
    "timeout": ("Seconds for one attempt, from the body's start. None: no limit.", True),
    "idle_timeout": ("Seconds without output, progress or heartbeat before the attempt ends as `timeout`.", True),
    "max_retries": ("How often a transient failure is tried again; 3 means up to four attempts.", True),
    "retry_delay": ("Seconds before the first retry; doubled each time, jittered, at most 60.", True),
    "retry_on": ("Exception classes that count as transient beside those that say so themselves.", True),
    "idempotent": (
        "Twice under the same idempotency key is like once: may be repeated after a crash or timeout.",
        True,
    ),
    "read_only": ("There is no effect: may be repeated after a crash or a timeout.", True),
    "recovery": (
        "After a crash in mid-attempt: `auto` (by the two above), `rerun`, `fail` (`outcome_unknown`) or `ask`.",
        True,
    ),
    "reconcile": (
        "Called as `check(call, ctx)` when the outcome of an attempt is unknown; returns `Happened`, `DidNotHappen` or `Unknown`.",
        True,
    ),
    "undo": (
        "Takes the effect of a call back: called as `undo(call, ctx)` with the call's record, or an `Undo` with options of its own.",
        True,
    ),
    "external": ("The body only begins the work; the token of `ctx.pending()` ends the call from outside.", True),
    "background": (
        "In an agent's turn the conversation goes on while the call runs; its result enters a later step or turn.",
        True,
    ),
    "isolation": ("Where the body runs: `auto`, `inline`, `thread`, `process` or `ray`.", True),
    "resources": (
        'With `isolation="ray"`: `{"cpu": 1, "gpu": 0, "memory": "2GB"}`, what the body needs on the cluster.',
        True,
    ),
    "cache": (
        "Seconds that a result may be served again without a run; True: as long as the settings say for the tool.",
        True,
    ),
    "cache_scope": (
        "Who shares its results: `caller`, or only the calls of one `thread`; the settings' unless given.",
        True,
    ),
    "real_time": ("Never served from a cache, whatever `cache` says.", True),
    "time_window": ("Seconds after which equal calls of a time-sensitive tool are equal no more.", True),
    "depends_on": (
        'Tools that must have completed in the thread before: `"a"`, `["a", "b"]`, `{"any" | "all" | "sequence": […]}`.',
        True,
    ),
    "failure_threshold": ("Failures in a row, in one thread, after which the tool is hidden and refused there.", True),
    "cooldown": ("Seconds after which one call may try a tool that was hidden so.", True),
    "breaker": (
        "Where failures count: `thread`, in the call's thread; `shared`, over all callers together.",
        True,
    ),
    "permissions": ("Permissions that the caller needs; see `Policy(granted=…)`.", True),
    "rate": ('How often calls of the tool start, over all processes: `"10/s"`, `"600/m"`, `"100/h burst 20"`.', True),
    "labels": ('Labels that a runtime or worker must have to run the tool: `["gpu"]`.', True),
    "credentials": (
        'Providers whose tokens of its caller a call needs: `["github"]`; it waits until they are there, and `ctx.credential("github")`.',
        True,
    ),
    "max_concurrency": (
        "How many calls of this tool run at once, in all runtimes over the store. None: as many as each allows.",
        True,
    ),
    "max_result_size": (
        "Bytes of the text that the model reads; what is larger is cut and kept whole as an artifact.",
        True,
    ),
    "sensitive": (
        "Fields of the arguments and the result that nobody but the tool may see: names, at any depth, or JSON pointers.",
        True,
    ),
    "tags": ("Labels; a policy matches them as `tag:NAME`.", True),
}

MODULES = (
    "clicket.hub",
    "clicket.client",
    "clicket.server",
    "clicket.mcp",
    "clicket.telemetry",
    "clicket.interpreter",
    "clicket.sandbox",
    "clicket.search",
    "clicket.search.report",
    "clicket.web",
    "clicket.models",
    "clicket.agents",
    "clicket.adapters.anthropic",
    "clicket.adapters.openai",
    "clicket.adapters.langchain",
    "clicket.adapters.pydantic_ai",
)
"""Parts with their own page, made from their public names."""

CALL_OPTIONS = {
    "id": "Your own id: in one thread, the same id and arguments are the same call. A new one is made unless given.",
    "thread": "The conversation that the call belongs to; `default` unless given.",
    "timeout": "Seconds for each attempt, in place of the tool's own.",
    "deadline": "Seconds for the whole call, waiting and retries included.",
    "not_before": "The call waits until then: a datetime with a time zone, or seconds since the epoch. Its deadline counts from then.",
    "priority": "Higher leaves the queue first; 0 unless given.",
    "request_id": "Kept with the call, for your own tracing.",
    "metadata": "A mapping of JSON values: the tool sees it as `ctx.metadata`, the result has it, too.",
}

# Codes of `ToolResult.error`, in the order of the stages of a call.
CODES = {
    "arguments_lost": "A call with a secret had to run from its record, and no key opens what is kept; it was not run.",
    "tool_not_found": "There is no such tool; the message names near misses.",
    "permission_denied": "The policy says no, or failed, which counts as no.",
    "invalid_input": 'The arguments do not fit. `details["problems"]` lists every complaint with its path; the tool was not run.',
    "approval_denied": "A person said no.",
    "credential_missing": "The caller has no credential that works for a provider; the call waits for one, so it is seen on attempts.",
    "tool_unavailable": "The tool cannot be used now, or no longer takes the arguments of a call that was taken over.",
    "tool_error": "The tool failed; `type` and `message` are its exception's.",
    "timeout": 'Time ran out; `metadata["phase"]` says which clock.',
    "cancelled": "Somebody cancelled the call, or the runtime was closed.",
    "result_unserializable": "The tool ran, but its result is not JSON.",
    "outcome_unknown": "The attempt was begun and its end is not known: the effect may or may not have happened.",
    "not_isolated": "Raised: the host cannot keep programs as well as `require` asks; nothing was run. As a call: `tool_error`.",
    "sandbox_failed": "Raised: a sandbox process did not start although the probe of this host had succeeded. As a call: `tool_error`.",
    "packages_failed": "Raised: packages could not be installed from the folder of wheels. As a call: `tool_error`.",
    "session_gone": "Raised by a session of the code interpreter that has ended; `Interpreter` tells it as a status.",
    "engine_failed": "Raised by a search engine that came to no answer. In a deep search it is a note, or, when all fail, the end of it.",
    "page_failed": "Raised by `Pages.read`: the page could not be read. In a search its excerpt is used instead.",
    "conflict": "Raised: the id is taken by a call with other arguments. No call was made.",
    "agent_busy": "Raised: the thread of an agent has a turn under way. No second one was begun.",
    "agent_changed": "The agent of an interrupted turn has other tools or limits now, and `on_change` is `refuse`. The turn has ended.",
    "middleware_failed": "A method of an agent's middleware raised, or returned what it cannot. The turn has ended as an error.",
    "queue_full": "Raised: the waiting line is full. No call was made.",
    "store_unavailable": "Raised: the store cannot be written or read. Nothing is half-written.",
    "not_found": "Raised: no call or artifact has this name.",
    "usage": "Raised: the library was used in a way that cannot work.",
    "invalid_transition": "Raised: an edge that is not in a state table. Nothing was changed.",
    "clicket_error": "The root of the tree; not raised itself.",
}

# Parts with their own errors.
ERRORS_ELSEWHERE = (
    "clicket.interpreter.sandbox.isolation",
    "clicket.interpreter.sandbox.launch_resources",
    "clicket.interpreter.setup.packages",
    "clicket.interpreter.session.exit_reason",
    "clicket.search.findings",
    "clicket.search.engines.adapter",
    "clicket.search.web.page_fetch",
)

EVENTS = {
    "created": "The call was accepted: tool, thread, arguments (or why they were refused), idempotency key, options.",
    "state_changed": "`from`, `to`; with an error, a delay before the next attempt, or the outcome.",
    "stage_ended": "`stage`, `outcome` (`ok` or an error code), `duration` in seconds.",
    "attempt_started": "`attempt`: its number. Durable before the body runs.",
    "output": "`content`: a piece of output; `offset`: its first byte in the whole.",
    "progress": "`step`, `total_steps`, `percentage`, `status`, `estimated_time_remaining`.",
    "heartbeat": "The tool is alive.",
    "cancel_requested": "`reason`. By this process or another.",
    "approval_requested": "`reason`: why; `timeout`, `deadline`; `purpose`: `run`, `recovery`, or `input` with the `question` of the tool.",
    "approval_given": "`approved`, `by`, `reason`; `arguments`, if it came with others; `responded`, `output`: a person's answer.",
    "late_result": "`output` or `error` that came after the outcome; it changes nothing.",
    "reconcile_started": "`attempt`, `try`, `worker`: the tool's own check is asked. Durable before it runs.",
    "reconcile_ended": "`attempt`, `try`, `outcome` (as in `record.reconciliation`); `reason`, `error`, `delay`.",
    "reported": "`output` or `error`: the result that a token brought from outside.",
    "resolved": "`happened`, `output`, `by`, `note`; `rerun_as`, if it runs again: how a person settled an unknown outcome.",
    "note": "`text`, and more: a remark of the tool, a take-over, where journaled output ends.",
}

# Values that methods return, beside those that are exported.
GIVEN = {
    "clicket.engine.actions.handles": ["CallHandle"],
    "clicket.model": ["Page", "Attempt", "Stage"],
    "clicket.runtime.runtime": ["ToolInfo", "Cache"],
    "clicket.ports": ["CacheStats"],
    "clicket.engine": ["Recovered"],
    "clicket.engine.stages": ["Request"],
    "clicket.tools.rest": ["Connection"],
    "clicket.tools": ["Session"],
}

# Names of plain values have no docstring to read.
SAID = {"LAYERS": "Every layer, and what is missing without it.", "LEVELS": "From the weakest to the strongest."}

# Made by the runtime, never by its users; the reference leaves their constructors out.
HANDED_OUT = {
    "ToolContext": ("call_id", "tool", "thread", "caller", "attempt", "idempotency_key", "metadata"),
    "CallHandle": ("id", "thread"),
    "SandboxProcess": (
        "commands",
        "answers",
        "stdout",
        "stderr",
        "work",
        "home",
        "uid",
        "isolation",
        "limits",
        "exited",
        "breach",
    ),
    "Cache": (),
}
# Public for the layers above, of no use to users.
INNER = (
    *("Runtime.engine", "CallHandle.leave", "RestTool.bind", "RestTool.run"),
    *("Interpreter.session", "SandboxProcess.grouped", "Result.size"),
)


def complete(what: str, described: Iterable[str], existing: Iterable[str]) -> None:
    """Raise if a table does not match the code."""
    described, existing = set(described), set(existing)
    if described != existing:
        missing, extra = sorted(existing - described), sorted(described - existing)
        raise SystemExit(f"scripts/docs.py: {what}: not described: {missing}, described but not there: {extra}")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def code(text: object) -> str:
    return f"`{text}`"


def doc_of(thing: Any) -> str:
    """Its own docstring, not an inherited one."""
    own = thing.__dict__.get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    return inspect.cleandoc(own) if own else ""


def signature(name: str, function: Callable[..., Any], *, bound: bool = False) -> str:
    """`name(parameters) -> result` as in the source, on one line or one parameter a line."""
    parts: list[str] = []
    starred = False
    parameters = list(inspect.signature(function).parameters.values())[1 if bound else 0 :]
    for position, each in enumerate(parameters):
        if each.kind is each.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        mark = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        hint = "" if each.annotation is each.empty else f": {each.annotation}"
        value = "" if each.default is each.empty else f"{' = ' if hint else '='}{_shown(each.default)}"
        parts.append(f"{mark}{each.name}{hint}{value}")
        following = parameters[position + 1].kind if position + 1 < len(parameters) else None
        if each.kind is each.POSITIONAL_ONLY and following is not each.POSITIONAL_ONLY:
            parts.append("/")
    result = inspect.signature(function).return_annotation
    tail = "" if result is inspect.Signature.empty else f" -> {result}"
    prefix = "async " if inspect.iscoroutinefunction(function) else ""
    line = f"{prefix}{name}({', '.join(parts)}){tail}"
    if len(line) <= 110:
        return line
    return f"{prefix}{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){tail}"


def _shown(value: Any) -> str:
    if inspect.isfunction(value):  # its repr has an address
        return value.__name__
    return f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else repr(value)


def fields_of(struct: type[msgspec.Struct]) -> str:
    hints: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        hints.update(inspect.get_annotations(base))
    rows = []
    for field in msgspec.structs.fields(struct):
        if field.default is not msgspec.NODEFAULT:
            default = code(_shown(field.default))
        elif field.default_factory is not msgspec.NODEFAULT:
            default = code(repr(field.default_factory()))
        else:
            default = ""
        rows.append((code(field.name), code(hints[field.name]), default))
    return table(("field", "type", "default"), rows)


def members_of(kind: type) -> list[str]:
    """Methods and properties of the class itself, in the order of its source."""
    found = []
    for name, member in kind.__dict__.items():
        if name.startswith("_") or f"{kind.__name__}.{name}" in INNER:
            continue
        if isinstance(member, property):
            assert member.fget is not None
            hint = member.fget.__annotations__.get("return", "")
            found.append(f"#### `{kind.__name__}.{name}: {hint}`\n\n{doc_of(member)}".rstrip())
            continue
        if type(member).__module__.startswith("clicket.") and hasattr(type(member), "__get__"):  # a view of the runtime
            hint = type(member).__get__.__annotations__.get("return", "")
            found.append(f"#### `{kind.__name__}.{name}: {hint}`\n\n{doc_of(type(member))}".rstrip())
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function):
            bound = not isinstance(member, staticmethod)
            text = signature(f"{kind.__name__}.{name}", function, bound=bound)
            found.append(f"#### `{kind.__name__}.{name}`\n\n```py\n{text}\n```\n\n{doc_of(function)}".rstrip())
    return found


def describe(name: str, thing: Any) -> str:
    parts = [f"### `{name}`"]
    if isinstance(thing, type) and issubclass(thing, BaseException):
        parts.append(
            f"An exception, kind of `{thing.__bases__[0].__name__}`; `code` is `{getattr(thing, 'code', '')}`."
        )
        parts.append(doc_of(thing))
    elif isinstance(thing, type) and issubclass(thing, enum.Enum):
        parts.append(doc_of(thing))
        parts.append(table(("member", "value"), [(code(f"{name}.{m.name}"), code(m.value)) for m in thing]))
        parts += members_of(thing)
    elif isinstance(thing, type):
        parts.append(doc_of(thing))
        if issubclass(thing, msgspec.Struct):
            parts.append(fields_of(thing))
        elif name in HANDED_OUT:
            named = f" Its attributes: {', '.join(map(code, HANDED_OUT[name]))}." if HANDED_OUT[name] else ""
            parts.append(f"You are given one.{named}")
        elif "__init__" in thing.__dict__ and not getattr(thing, "_is_protocol", False):
            parts.append(f"```py\n{signature(name, thing.__init__, bound=True).removesuffix(' -> None')}\n```")
        parts += members_of(thing)
    elif inspect.isfunction(thing):
        parts += [f"```py\n{signature(name, thing)}\n```", doc_of(thing)]
    elif isinstance(thing, Mapping):
        parts += [SAID.get(name, ""), table(("name", ""), [(code(key), value) for key, value in thing.items()])]
    elif isinstance(thing, tuple) and all(isinstance(each, str) for each in thing):
        parts += [SAID.get(name, ""), ", ".join(map(code, thing))]
    elif isinstance(getattr(thing, "setup", None), msgspec.Struct):  # a tool that is configured by calling it
        parts += [doc_of(type(thing)), doc_of(type(thing).__call__), fields_of(type(thing.setup))]
    elif isinstance(thing, list | tuple):
        listed = "\n".join(
            f"- `{each.__name__}`: {doc_of(each).splitlines()[0] if doc_of(each) else 'a law'}" for each in thing
        )
        parts.append(listed.replace(": a law", ""))
    else:
        parts.append(code(str(thing).replace("typing.", "").replace("collections.abc.", "")))
    return "\n\n".join(part for part in parts if part)


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", MADE, *(part for part in parts if part)]) + "\n"


def face(name: str) -> list[str]:
    module = importlib.import_module(name)
    return [describe(each, getattr(module, each)) for each in module.__all__]


def module_page(name: str) -> str:
    return page(name, doc_of(importlib.import_module(name)), *face(name))


def api() -> str:
    from clicket.model import CallOptions

    complete("keywords of a call", CALL_OPTIONS, CallOptions.__annotations__)
    hints = {name: getattr(hint, "__forward_arg__", hint) for name, hint in CallOptions.__annotations__.items()}
    keywords = [(code(name), code(hints[name]), text) for name, text in CALL_OPTIONS.items()]
    given = [
        describe(each, getattr(importlib.import_module(home), each)) for home, names in GIVEN.items() for each in names
    ]
    return page(
        "Python",
        "Everything that `import clicket` gives. Durations are seconds, sizes are bytes, instants are seconds since the epoch.",
        "## Keywords of a call\n\n`call`, `submit`, `stream` and `ToolCall` take the same ones.",
        table(("keyword", "type", "meaning"), keywords),
        "## Names",
        *face("clicket"),
        "## Values that methods give",
        *given,
    )


def tool_options() -> str:
    from clicket.tools import Options

    complete("options of @tool", OPTIONS, ["name", "description", *Options.__struct_fields__])
    defaults = {field.name: field.default for field in msgspec.structs.fields(Options)}
    rows = []
    for name, (text, works) in OPTIONS.items():
        default = defaults.get(name)
        shown = repr(sorted(default)) if isinstance(default, frozenset) else repr(default)
        rows.append((code(name), code(shown), text if works else f"{text} *No effect in this version.*"))
    return page(
        "Options of `@tool`",
        "`@tool` works bare and with options; `RestTool` takes them as keywords, `NativeTool` as class keywords or attributes, "
        "classes with `run` as attributes. An unknown or impossible one is refused where the tool is declared.",
        table(("option", "default", "meaning"), rows),
    )


def errors() -> str:
    from clicket import errors as module

    classes = [
        thing
        for each in (module, *map(importlib.import_module, ERRORS_ELSEWHERE))
        for thing in vars(each).values()
        if isinstance(thing, type) and issubclass(thing, module.ClicketError) and thing.__module__ == each.__name__
    ]
    not_classes = (
        "timeout",
        "cancelled",
        "outcome_unknown",
        "arguments_lost",
    )  # states of a call, without an exception class
    complete("error codes", CODES, {*(kind.code for kind in classes), *not_classes})
    by_code = {text: [k.__name__ for k in classes if k.code == text] for text in CODES}
    rows = [(code(name), ", ".join(map(code, by_code[name])), text) for name, text in CODES.items()]
    return page(
        "Errors",
        "A call that failed is returned: its `error` has a code. What is raised makes no call. Every message says what to do next.",
        table(("code", "class in `clicket.errors`, or of its part", "meaning"), rows),
    )


def events() -> str:
    from clicket.kernel import CALL
    from clicket.model import EventType

    complete("event types", EVENTS, get_args(EventType))
    states = [
        (code(s), ", ".join(code(t) for t in CALL.states if t in CALL.edges[s]) or "nothing, ever") for s in CALL.states
    ]
    return page(
        "Events and states",
        "An event has `call_id seq at type state data`. `seq` counts from 1 without gaps, `state` is the call's state after the event, "
        "`at` is in seconds since the epoch.",
        "## Types",
        table(("type", "data"), [(code(name), text) for name, text in EVENTS.items()]),
        "## States of a call",
        table(("from", "to"), states),
    )


def cli() -> str:
    """The commands; an empty text if the command line cannot be loaded."""
    try:
        import typer.main

        from clicket.cli.app import app
    except ImportError as error:
        print(f"scripts/docs.py: docs/reference/cli.md is left as it is: {error}", file=sys.stderr)
        return ""
    group: Any = typer.main.get_command(app)
    group.load_all()
    shared = [p for p in group.params if getattr(p, "rich_help_panel", None) == "Everywhere"]
    names = {p.name for p in shared}
    parts = ["Options that every command takes, before or after its name:", _parameters(shared)]
    for name, command in _leaves(group):
        own = [
            p for p in command.params if p.name not in names and p.name != "help" and not getattr(p, "hidden", False)
        ]
        arguments = " ".join(p.metavar or p.name.upper() for p in own if not p.opts[0].startswith("-"))
        title = f"clicket {name} {arguments}".strip()
        parts.append(f"## `{title}`")
        parts.append(inspect.cleandoc(command.help or ""))
        parts.append(_parameters(own))
    codes = importlib.import_module("clicket.cli.errors")
    meanings = {
        codes.DONE: "done",
        codes.FAILED: "the call failed",
        codes.WRONG_USE: "wrong use, or something that is not there",
        codes.UNREACHABLE: "the store cannot be reached",
        codes.INTERRUPTED: "interrupted",
    }
    parts += ["## Exit codes", table(("code", "meaning"), [(code(c), text) for c, text in meanings.items()])]
    return page("Command line", *parts)


def _leaves(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its full name, including those of two words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _parameters(parameters: list[Any]) -> str:
    rows = []
    for p in parameters:
        is_option = p.opts[0].startswith("-")
        names = (
            ", ".join(code(o) for o in [*p.opts, *p.secondary_opts]) if is_option else code(p.metavar or p.name.upper())
        )
        if is_option and p.metavar:
            names += f" {code(p.metavar)}"
        silent = p.default is None or p.default is False or p.default in ("", (), []) or callable(p.default)
        default = "" if silent else code(p.default)
        rows.append((names, default, (p.help or "").replace("\n", " ")))
    return table(("", "default", ""), rows) if rows else ""


def index(pages: Mapping[str, str]) -> str:
    lines = [f"- [{_title(text)}]({name})" for name, text in pages.items()]
    return page("Reference", "Made from the code by `make docs`.", "\n".join(lines))


def _title(text: str) -> str:
    return text.split("\n", 1)[0].removeprefix("# ")


def llms() -> str:
    """The map of the docs for machines that read: https://llmstxt.org."""
    parts = {
        "Docs": [DOCS / "why.md", DOCS / "tutorial.md", DOCS.parent / "ARCHITECTURE.md"],
        "Guides": sorted((DOCS / "guides").glob("*.md")),
        "Reference": sorted(p for p in (DOCS / "reference").glob("*.md") if p.name != "index.md"),
        "Design": sorted((DOCS / "design").glob("*.md")),
        "Optional": sorted((DOCS / "zh-CN").rglob("*.md")),
    }
    import clicket

    lines = ["# clicket", "", f"> {doc_of(clicket)}"]
    for name, files in parts.items():
        lines += ["", f"## {name}", ""]
        for file in files:
            where = file.relative_to(DOCS).as_posix() if file.is_relative_to(DOCS) else f"../{file.name}"
            lead = _lead(file)
            lines.append(f"- [{_title(file.read_text('utf-8'))}]({where}){': ' + lead if lead else ''}")
    return "\n".join(lines) + "\n"


def _lead(file: Path) -> str:
    """The first sentence below the title."""
    for block in re.split(r"\n{2,}", FENCE.sub("", file.read_text("utf-8")))[1:]:
        if not block.startswith(("<", "|", "#", "- ", "[")):
            sentence = " ".join(block.split()).replace("**Decision.** ", "")
            return re.split(r"(?<=[.])(?= [A-Z`*])|(?<=。)", sentence)[0]
    return ""


def broken_links() -> Iterator[str]:
    """Links between our own pages that lead nowhere, and named files that do not exist."""
    root = DOCS.parent
    pages = [root / "README.md", root / "ARCHITECTURE.md", *sorted(DOCS.rglob("*.md"))]
    for file in pages:
        text = FENCE.sub("", file.read_text("utf-8"))
        for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
            name, _, anchor = target.partition("#")
            there = file.parent / name if name else file
            if not there.exists():
                yield f"{file.relative_to(root)}: the link {target} leads nowhere"
            elif anchor and anchor not in _anchors(there):
                yield f"{file.relative_to(root)}: {there.name} has no heading #{anchor}"
        if file.parent.name == "design" or file.name == "ARCHITECTURE.md":
            for name in re.findall(r"`((?:tests|benchmarks|scripts)/[\w/.-]+)`", text):
                if not (root / name).exists():
                    yield f"{file.relative_to(root)}: there is no {name}"


def _anchors(file: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", file.read_text("utf-8")), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def stray_translations() -> Iterator[str]:
    """Translated pages whose code differs from the original's."""
    for file in sorted((DOCS / "zh-CN").rglob("*.md")):
        name = file.relative_to(DOCS / "zh-CN")
        original = DOCS.parent / name if name.name == "README.md" else DOCS / name
        if FENCE.findall(file.read_text("utf-8")) != FENCE.findall(original.read_text("utf-8")):
            yield f"docs/zh-CN/{name}: its code differs from that of {original.relative_to(DOCS.parent)}"


def write(path: Path, text: str, *, check: bool) -> bool:
    """Whether the file was correct already."""
    if path.is_file() and path.read_text("utf-8") == text:
        return True
    if check:
        print(f"{path.relative_to(DOCS.parent)}: differs from the code; run make docs", file=sys.stderr)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return False


def main() -> int:
    check = "--check" in sys.argv
    settings, settings_chinese = settings_pages(MADE)
    made = {
        "api.md": api(),
        "sync.md": page(
            "clicket.sync", "The same names, blocking, for programs without an event loop.", *face("clicket.sync")
        ),
        "testing.md": page(
            "clicket.testing", doc_of(importlib.import_module("clicket.testing")), *face("clicket.testing")
        ),
        **{f"{name.removeprefix('clicket.').replace('.', '-')}.md": module_page(name) for name in MODULES},
        "tool-options.md": tool_options(),
        "settings.md": settings,
        "errors.md": errors(),
        "events.md": events(),
        "cli.md": cli(),
    }
    pages = {name: text for name, text in made.items() if text}
    pages["index.md"] = index(pages)
    right = [write(DOCS / "reference" / name, text.rstrip() + "\n", check=check) for name, text in pages.items()]
    right.append(write(DOCS / "zh-CN" / "reference" / "settings.md", settings_chinese, check=check))
    right.append(write(DOCS / "llms.txt", llms(), check=check))
    complaints = [*broken_links(), *stray_translations()]
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    return 1 if complaints or (check and not all(right)) else 0


if __name__ == "__main__":
    sys.exit(main())
