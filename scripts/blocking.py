"""Writes the blocking classes of `clicket.sync` and `clicket.client` from the async ones, which are the single source. `--check` changes
nothing, and fails if a file is not what it would write.

Each public method, property and annotated attribute of an async class has a counterpart of its name: a coroutine is a plain call, an async
iterator an iterator, and what returns an async class of the table returns the blocking one. Signatures, defaults and docstrings are those
of the source.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, get_overloads

SOURCE = Path(__file__).resolve().parents[1] / "src"
BASE = "clicket.runtime.blocking_base"

FILES = {
    "clicket.runtime.blocking": """
        runtime.runtime.Runtime engine.actions.handles.CallHandle runtime.calls.subscription.Subscription engine.hub.thread.ThreadHub
        runtime.views.audit.Audit runtime.views.cache.Cache runtime.views.credentials.Credentials runtime.views.grants.Grants
        runtime.views.memory.MemoryView runtime.views.notices.Notices runtime.schedules.view.Schedules runtime.views.spend.SpendView
        runtime.views.workers.Workers
    """,
    "clicket.runtime.blocking_agents": "agents.agent.Agent agents.react.ReActAgent agents.plan_execute.PlanExecuteAgent",
    "clicket.client.sync": """
        client.client.Client client.handle.CallHandle client.subscription.Subscription client.hub.ThreadHub client.audit.Audit
        client.cache.Cache client.credentials.Credentials client.approvals.Grants client.memory.Memory client.notices.Notices
        client.evals.Evals client.schedules.Schedules client.spend.Spend client.workers.Workers
    """,
    "clicket.client.sync_agent": "client.agent.RemoteAgent",
}
"""The async classes whose counterparts each file has."""
RENAMED = {"clicket.client.client.Client": "SyncClient", "clicket.client.agent.RemoteAgent": "SyncAgent"}
RUNTIMES = {
    "clicket.runtime.runtime.Runtime": ("clicket.sync.Runtime", "clicket.Runtime", f"{BASE}.SyncFirstRuntime"),
    "clicket.client.client.Client": (
        "clicket.client.SyncClient",
        "clicket.client.Client",
        "clicket.client.client.Client",
    ),
}
"""Classes with a loop of their own: their names and those of the async ones, as errors say them, and the async class that they make."""
AGENT = "clicket.agents.agent.Agent"
GIVEN_FOR = {"clicket.agents.agent.HasHost": "clicket.runtime.runtime.Runtime"}
"""Parameters of this type take the counterpart of that class."""

ONLY_ASYNC = {
    "for servers, commands and telemetry, which are async": (
        "Runtime.activity Runtime.arguments_of Runtime.caller Runtime.check_token Runtime.clock Runtime.examine Runtime.held_calls "
        "Runtime.is_held Runtime.is_open Runtime.is_shared Runtime.pin_until Runtime.policy Runtime.retention Runtime.role "
        "Runtime.stop_claiming Runtime.sweep Runtime.vault CallHandle.caller CallHandle.is_removed CallHandle.leave Notices.figures "
        "Notices.links"
    ),
    "takes or gives what lives in the loop": (
        "Runtime.engine Runtime.host Runtime.on_close Runtime.spawn Runtime.store Agent.listening Agent.events(reader) Client(transport)"
    ),
    "for the parts of a runtime that call it": (
        "ThreadHub.offered ThreadHub.offered_now Notices.emit Agent.outages Agent.keep_files Agent.recorded"
    ),
    "for subclasses; the option of this name takes a function": "Agent.on_state_changed",
}
"""Names that have no counterpart, and why. In brackets: one parameter."""
NOT_BLOCKING = {"Runtime.add", "Runtime.remove"}
"""They wait for nothing, so they work before the runtime is open, and in a running loop."""
BY_HAND = {"Runtime": {"open", "close", "__repr__"}, "Client": {"open", "close", "__repr__"}, "Subscription": {"close"}}
"""In `blocking_base`."""

HOMES = {f"clicket.{each}": module for module, classes in FILES.items() for each in classes.split()}
HIDDEN = {name for names in ONLY_ASYNC.values() for name in names.split()}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_of(full: str) -> str:
    return RENAMED.get(full) or full.rpartition(".")[2]


def found_at(full: str) -> Any:
    module, _, name = full.rpartition(".")
    return getattr(importlib.import_module(module), name, None) if module else None


@cache
def names_in(module: str) -> dict[str, str]:
    """The full names of what a module imports and defines."""
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(inspect.getsource(importlib.import_module(module)))):
        if isinstance(node, ast.ImportFrom):
            found.update({each.asname or each.name: f"{node.module}.{each.name}" for each in node.names})
        elif isinstance(node, ast.Import):
            found.update({each.asname or each.name: each.name for each in node.names})
    return {name: f"{module}.{name}" for name in vars(importlib.import_module(module))} | found


def source_of(function: Any) -> Function:
    node = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(node, Function)
    return node


def members_of(kind: type) -> Iterator[tuple[str, Any]]:
    """Its own public members; of an attribute that it declares, or its constructor, the type."""
    yield from inspect.get_annotations(kind).items()
    for node in ast.walk(source_of(inspect.unwrap(vars(kind)["__init__"]))) if "__init__" in vars(kind) else ():
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            yield node.target.attr, ast.unparse(node.annotation)
    yield from ((name, member) for name, member in vars(kind).items() if not isinstance(member, str))


def returned(node: Function) -> tuple[str, ast.expr]:
    """How a method returns, and what a blocking caller gets: the result of a coroutine, or one item of an iterator."""
    assert node.returns is not None, node.name
    if isinstance(node.returns, ast.Subscript):
        outer = ast.unparse(node.returns.value)
        if outer in ("AsyncIterator", "AsyncGenerator"):
            return "iterate", node.returns.slice
        if outer == "Coroutine" and isinstance(node.returns.slice, ast.Tuple):
            return "call", node.returns.slice.elts[2]
    return "call" if isinstance(node, ast.AsyncFunctionDef) else "run", node.returns


def docstring(text: str | None, indent: int = 8) -> str:
    if not text:
        return ""
    text = re.sub(
        r"\bawait (?=\w)|\b(an )?async (?=with|for|iterator)",
        lambda found: "an " if found[1] else "",
        inspect.cleandoc(text),
    )
    if any(len(line) + indent > 136 for line in text.splitlines()):
        text = "\n\n".join(textwrap.fill(part, 136 - indent, break_on_hyphens=False) for part in text.split("\n\n"))
    body = textwrap.indent(text, " " * indent)
    end = "\n" + " " * indent if "\n" in text else ""
    return f'{" " * indent}"""{body.lstrip()}{end}"""\n'


def import_of(named: tuple[str, str]) -> str:
    name, full = named
    module, _, original = full.rpartition(".")
    renamed = "" if name == original else f" as {name}"
    return f"from {module} import {original}{renamed}" if module else f"import {name}"


class Writer(ast.NodeTransformer):
    """One file. Its imports are collected while its classes are written."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.imports: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def text(self) -> str:
        classes = [f"clicket.{each}" for each in FILES[self.module].split()]
        parts = [self._class(each) for each in classes]
        about = f"`{name_of(classes[0])}`, and what it gives: the async classes for programs without an event loop."
        head = f'"""{about}\n\nWritten by `scripts/blocking.py`: change the async classes, then run `make docs`.\n"""'
        imports = ["from __future__ import annotations", *map(import_of, self.imports.items())]
        return formatted("\n".join([head, *imports, f"__all__ = {sorted(map(name_of, classes))}", *parts]))

    def imported(self, full: str, name: str = "") -> str:
        name = name or full.rpartition(".")[2]
        if self.imports.setdefault(name, full) != full:
            raise SystemExit(
                f"scripts/blocking.py: {name} has two meanings in {self.module}: {self.imports[name]} and {full}."
            )
        return name

    def counterpart(self, full: str) -> str | None:
        """The blocking class of an async one, if it has one."""
        thing = found_at(GIVEN_FOR.get(full, full))
        full = f"{thing.__module__}.{thing.__qualname__}" if isinstance(thing, type) else full
        home = HOMES.get(full)
        return home and (name_of(full) if home == self.module else self.imported(f"{home}.{name_of(full)}"))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        full = self._names.get(node.id)
        if full is None:
            assert hasattr(builtins, node.id), f"{node.id} is not known where it is used"
            return node
        return ast.Name(self.counterpart(full) or self.imported(full, node.id))

    def here(self, node: ast.AST, home: str) -> str:
        """A piece of the module `home`, with the names of this file."""
        self._names = names_in(home)
        return ast.unparse(self.visit(node))

    def _class(self, full: str) -> str:
        kind: type = found_at(full)
        name, alias = name_of(full), self.imported(full, f"Async{kind.__name__}")
        of = f"{alias}[T]" if getattr(kind, "__parameters__", ()) else alias
        base = f"{kind.__mro__[1].__module__}.{kind.__mro__[1].__qualname__}"
        if base in HOMES:
            head = f"{self.counterpart(base)}[T]"
        elif full in RUNTIMES:
            head = f"{self.imported(f'{BASE}.BlockingRuntime')}[{of}]"
        elif hasattr(kind, "__anext__"):
            _, item = returned(source_of(kind.__anext__))
            head = f"{self.imported(f'{BASE}.BlockingSubscription')}[{of}, {self.here(item, kind.__module__)}]"
        else:
            head = f"{self.imported(f'{BASE}.BlockingPart')}[{of}]"
        about = "" if hasattr(kind, "__anext__") else (kind.__doc__ or "").replace(f"{kind.__name__}(", f"{name}(")
        lines = [f"class {name}({head}):", docstring(about, 4)]
        if full in RUNTIMES:
            lines.append("    _name = {!r}\n    _twin = {!r}\n".format(*RUNTIMES[full]))
        if full in RUNTIMES or issubclass(kind, found_at(AGENT)):
            lines.append(self._constructor(full, kind, alias))
        for each, member in members_of(kind):
            is_public = not each.startswith("_") or each in ("__call__", "__repr__")
            if is_public and f"{kind.__name__}.{each}" not in HIDDEN and each not in BY_HAND.get(kind.__name__, ()):
                lines.append(self._member(full, kind, each, member))
        return "\n".join([*lines, "    pass" if len(lines) == 2 and not lines[1] else ""])

    def _constructor(self, full: str, kind: type, alias: str) -> str:
        init = inspect.unwrap(vars(kind)["__init__"])
        parameters, passed = self._parameters(source_of(init), kind.__name__, init.__module__)
        if full in RUNTIMES:
            made = RUNTIMES[full][2]
            body = f"super().__init__({alias if made == full else self.imported(made)}({', '.join(passed)}))"
        else:
            body = f"self._make(rt, lambda of: {alias}({', '.join(['of', *passed[1:]])}))"
        checked = "" if init is vars(kind)["__init__"] else f"    @{self.imported('clicket.errors.known_keywords')}\n"
        return f"{checked}    def __init__(self, {parameters}) -> None:\n        {body}\n"

    def _member(self, full: str, kind: type, name: str, member: Any) -> str:
        if isinstance(member, FunctionType):
            return self._method(full, kind, member)
        getter = member.fget if isinstance(member, property) else getattr(type(member), "__get__", None)
        if isinstance(member, str):  # an attribute
            hint, home, doc = ast.parse(member, mode="eval").body, kind.__module__, ""
        elif isinstance(getter, FunctionType):  # a property, or a descriptor
            doc = (member if isinstance(member, property) else type(member)).__doc__ or ""
            hint, home = returned(source_of(getter))[1], getter.__module__
        else:
            return ""
        value, shown = f"self._async.{name}", self.here(hint, home)
        if shown in self._written():
            value = f"{shown}(self, self._loop.run(lambda: {value}))"
        return f"    @property\n    def {name}(self) -> {shown}:\n{docstring(doc)}        return {value}\n"

    def _method(self, full: str, kind: type, function: FunctionType) -> str:
        node, named = source_of(function), f"{kind.__name__}.{function.__name__}"
        how, result = returned(node)
        _, passed = self._parameters(node, named, function.__module__)
        value = f"self._async.{function.__name__}({', '.join(passed)})"
        if function.__name__ == "__repr__":
            value = "repr(self._async)"
        elif named not in NOT_BLOCKING:
            value = f"self._loop.{how}({'lambda: ' if how == 'run' else ''}{value})"
        shown = self.here(result, function.__module__)
        if shown in ("Self", name_of(full)):
            value = f"self._over({value})"
        elif shown in self._written():
            value = f"{shown}({'self' if full in RUNTIMES else 'self._runtime'}, {value})"
        doc = function.__doc__ or ""
        for left_out in self._left_out(named):
            doc = re.sub(rf"\s*`{left_out}`: [^.]*\.", "", doc)
        overloads = [
            f"    @{self.imported('typing.overload')}\n{self._head(each, named)} ..."
            for each in get_overloads(function)
        ]
        body = f"{docstring(doc)}        {'' if shown == 'None' else 'return '}{value}\n"
        return "\n".join([*overloads, self._head(function, named), body])

    def _head(self, function: Any, named: str) -> str:
        node = source_of(function)
        how, result = returned(node)
        shown = self.here(result, function.__module__)
        if how == "iterate":
            shown = f"{self.imported('collections.abc.Iterator')}[{shown}]"
        parameters, _ = self._parameters(node, named, function.__module__)
        return f"    def {node.name}(self{', ' if parameters else ''}{parameters}) -> {shown}:"

    def _written(self) -> Iterable[str]:
        """The blocking classes that this file has or imports."""
        return [
            name_of(full)
            for full, home in HOMES.items()
            if home == self.module or self.imports.get(name_of(full)) == f"{home}.{name_of(full)}"
        ]

    def _left_out(self, named: str) -> set[str]:
        return {each[len(named) + 1 : -1] for each in HIDDEN if each.startswith(f"{named}(")}

    def _parameters(self, node: Function, named: str, home: str) -> tuple[str, list[str]]:
        """The parameters after the first, as they are declared and as they are passed on."""
        given = node.args
        given.args.pop(0)
        kept = [
            pair
            for pair in zip(given.kwonlyargs, given.kw_defaults, strict=True)
            if pair[0].arg not in self._left_out(named)
        ]
        given.kwonlyargs, given.kw_defaults = [each for each, _ in kept], [default for _, default in kept]
        names = names_in(home)
        own = {each.arg: each.arg for each in [*given.args, *given.kwonlyargs]}
        for each in given.args:
            if each.annotation is not None and names.get(ast.unparse(each.annotation)) in GIVEN_FOR:
                own[each.arg] += "._async"
        passed = [own[each.arg] for each in given.args]
        passed += [f"*{given.vararg.arg}"] if given.vararg else []
        passed += [f"{each.arg}={own[each.arg]}" for each in given.kwonlyargs]
        passed += [f"**{given.kwarg.arg}"] if given.kwarg else []
        return self.here(given, home), passed


def formatted(text: str) -> str:
    for command in (["check", "--fix", "--select", "I,F401"], ["format"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--quiet", "--stdin-filename", "src/clicket/blocking.py", "-"],
            input=text, capture_output=True, text=True, check=False, cwd=SOURCE.parent,
        )  # fmt: skip
        if done.returncode:
            raise SystemExit(f"scripts/blocking.py: ruff refuses what was written: {done.stderr}")
        text = done.stdout
    return text


def main(*, is_check: bool) -> int:
    for module, classes in FILES.items():  # the old files may not fit the code any more
        sys.modules[module] = ModuleType(module)
        names = [name_of(f"clicket.{each}") for each in classes.split()]
        vars(sys.modules[module]).update({name: type(name, (), {}) for name in names})
    known = {f"{kind.__name__}.{name}" for kind in map(found_at, HOMES) for name, _ in members_of(kind)}
    gone = [
        name
        for name in HIDDEN | NOT_BLOCKING
        if name.partition("(")[0].replace("Client", "Client.__init__") not in known
    ]
    if gone:
        raise SystemExit(f"scripts/blocking.py: the tables name what is not there: {', '.join(sorted(gone))}.")
    texts = {SOURCE / f"{module.replace('.', '/')}.py": Writer(module).text() for module in FILES}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in stale:
        if not is_check:
            path.write_text(texts[path], "utf-8")
        print(f"{'not current' if is_check else 'written'}: {path.relative_to(SOURCE.parent)}")
    return int(is_check and bool(stale))


if __name__ == "__main__":
    sys.exit(main(is_check="--check" in sys.argv[1:]))
