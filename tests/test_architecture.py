"""The shape of the code, as tests: which modules import which, and which use threads."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from tests.kit.imports import circles, import_graph, nodes_of, parsed
from tests.kit.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "clicket"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Modules where sync meets threads. Everything else is single-threaded asyncio.
THREADS = {
    "system/operating_system.py": "the threads themselves",
    "system/bridge.py": "the one crossing between sync and async",
    "engine/executors/thread_sink.py": "a tool in a worker thread waits there when the loop lags behind",
    "engine/executors/processes": "the child's lifeline, and the writer of its frames",
    "engine/executors/ray": "calls of Ray block, and a body on the cluster runs beside the stream of its frames",
    "interpreter/inside": "threads of the program in the sandbox are counted, and a lock keeps its frames whole",
    "search/index": "searches on the loop and in the worker share one connection, under a lock",
    "stores/sqlite": "one writer thread owns the database",
}
THREAD_MODULES = {"threading", "_thread", "concurrent"}
THREAD_CALLS = {"run_coroutine_threadsafe", "to_thread", "run_in_executor"}

SYSTEM = "from clicket import system"
# Modules that ask the operating system for time or randomness themselves. Everything else asks `system`, so that a simulation decides.
OWN_SYSTEM = {
    "system/operating_system.py": "the one that asks",
    "cli": "what a person waits for at a terminal",
    "engine/executors/processes": "the pool's children, and the ends of real processes",
    "engine/executors/ray": "bodies on a cluster",
    "engine/executors/ray_lane.py": "bodies on a cluster",
    "interpreter": "real processes of a sandbox",
    "server/keys.py": "secrets of API keys",
    "testing": "checks of real stores",
    "stores/postgres": "tickets of requests to a real server",
}
FROM_THE_SYSTEM = {
    "time": {"time", "monotonic", "perf_counter", "time_ns", "monotonic_ns"},
    "random": {"random", "randint", "choice", "uniform", "getrandbits"},
    "secrets": {"token_bytes", "token_hex", "token_urlsafe"},
    "uuid": {"uuid1", "uuid4"},
    "os": {"urandom"},
}

# Encodings that run code when they are read.
NEVER = {"pickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle"}

# Where code probes a tool for an optional attribute. Everything else relies on the contract in tools/protocol.py.
PROBES = {
    ("adapters/langchain.py", "coroutine"): "a tool of LangChain's, not of ours",
    ("model/request.py", "name"): "a caller may pass a tool in place of its name",
}

# Variable names for a running call, its attempt and its journal entry; parameters with such an annotation count, too.
SUBJECTS = {
    **dict.fromkeys(("call", "old", "follower", "leader", "trial", "made"), "Call"),
    "attempt": "Attempt",
    "entry": "Entry",
}
# Where one of these names means something else.
OTHER_SUBJECTS = {
    ("adapters/langchain.py", "made"): "a tool of LangChain's",
    ("model/record.py", "attempt"): "an attempt as it is read from events",
    ("stores/memory.py", "call"): "the store's row",
    ("stores/memory.py", "made"): "the store's row",
    ("stores/redis/rows.py", "call"): "the store's row",
}

# Loaded by the command line or by the tools that need them, never by `import clicket`.
LAZY = ("typer", "click", "rich", "httpx2", "httpcore2", "anyio", "h11", "http.client", "uvloop")


@pytest.fixture(autouse=True, scope="module")
def _parsed_once() -> Iterator[None]:
    yield
    parsed.cache_clear()
    nodes_of.cache_clear()  # a million nodes, which the garbage collector would visit in every later test


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def allowed(path: Path, places: dict[str, str]) -> bool:
    name = name_of(path)
    return any(name == place or name.startswith((f"{place}/", f"{place}.py")) for place in places)


def imports(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """Every imported module with its line, wherever in the file it is imported."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, node.module or "."


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Checks the import contract of pyproject.toml over the package in `folder`."""
    return subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )


def test_import_contract_is_kept() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


# A line added to a file, and the contract's complaint.
VIOLATIONS = {
    "stray module": ("utils.py", "", "clicket.utils"),
    "upward": ("errors.py", "\nimport clicket.runtime\n", "clicket.errors -> clicket.runtime"),
    "sideways": ("agents/plan.py", "\nimport clicket.telemetry\n", "clicket.agents.plan -> clicket.telemetry"),
    "store outside compose": (
        "runtime/settings/settings.py", "\nimport clicket.stores\n", "clicket.runtime.settings.settings -> clicket.stores",
    ),
    "stray part of the engine": ("engine/stray.py", "", "clicket.engine.stray"),
    "upward in the engine": (
        "engine/core.py", "\nimport clicket.engine.lifecycle.ending\n", "clicket.engine.core -> clicket.engine.lifecycle.ending",
    ),
    "upward in a part of the engine": (
        "engine/lifecycle/ending.py",
        "\nimport clicket.engine.lifecycle.running\n",
        "clicket.engine.lifecycle.ending -> clicket.engine.lifecycle.running",
    ),
    "upward for typing": (
        "engine/journal/journal.py",
        "\nfrom typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import clicket.engine.core\n",
        "clicket.engine.journal.journal -> clicket.engine.core",
    ),
    "an agent that runs calls": (
        "agents/turn.py", "\nimport clicket.engine.lifecycle\n", "clicket.agents.turn -> clicket.engine.lifecycle",
    ),
}  # fmt: skip


def test_import_contract_bites(tmp_path: Path) -> None:
    """All violations in one copy of the package: the contract names each."""
    package = tmp_path / "src" / "clicket"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, text, _ in VIOLATIONS.values():
        with (package / file).open("a") as spoiled:
            spoiled.write(text)
    done = lint_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    named = [line.strip(" -").partition(" (l.")[0] for line in done.stdout.splitlines()]
    assert [what for what, (_, _, complaint) in VIOLATIONS.items() if complaint not in named] == []


def test_modules() -> None:
    wrong: list[str] = []
    for path in MODULES:
        try:
            check_module(path)
        except AssertionError as error:
            wrong.append(f"{name_of(path)}: {error}")
    assert wrong == []


def read_from_the_system(nodes: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in FROM_THE_SYSTEM.get(node.value.id, ()):
                yield node.lineno, f"{node.value.id}.{node.attr}"
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name in FROM_THE_SYSTEM.get(node.module or "", ()):
                    yield node.lineno, f"{node.module}.{alias.name}"


def check_module(path: Path) -> None:
    """No encoding that carries code, threads only where allowed, a docstring, a readable size."""
    text = path.read_text()
    tree = parsed(text)
    nodes = nodes_of(text)
    imported = list(imports(nodes))

    assert [found for found in imported if found[1].split(".")[0] in NEVER] == []

    if not allowed(path, THREADS):
        crossings = [found for found in imported if found[1].split(".")[0] in THREAD_MODULES]
        crossings += [
            (node.lineno, node.attr) for node in nodes if isinstance(node, ast.Attribute) and node.attr in THREAD_CALLS
        ]
        assert crossings == [], f"threads are for {', '.join(THREADS)}"

    # A module that imports the package itself would reach every layer at once, unseen by the contract.
    if not name_of(path).startswith(("cli/", "__main__")):
        lines = text.splitlines()
        whole = [line for line, module in imported if module == "clicket" and lines[line - 1].strip() != SYSTEM]
        assert whole == []

    if not allowed(path, OWN_SYSTEM):
        assert [*read_from_the_system(nodes)] == [], f"ask `{SYSTEM}`"

    # Servers, commands and features use the public names of a runtime, not what it is made of.
    inside = [
        node.lineno
        for node in nodes
        if isinstance(node, ast.Attribute)
        and node.attr == "engine"
        and ast.unparse(node.value).rpartition(".")[2].strip("_") == "runtime"
    ]
    assert inside == []

    if text.strip():
        assert ast.get_docstring(tree), "a module needs a docstring"


def test_no_tool_is_probed() -> None:
    probes = {
        (name_of(path), ast.literal_eval(node.args[1]))
        for path in MODULES
        if re.search(r"(get|has)attr\(", text := path.read_text())
        for node in nodes_of(text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
        if "tool" in ast.unparse(node.args[0]).lower().rsplit(".", 1)[-1] and isinstance(node.args[1], ast.Constant)
    }
    assert probes == set(PROBES), "add it to the contract, tools/protocol.py"


def test_no_circle_of_imports() -> None:
    found = [sorted(circle) for circle in circles(import_graph(PACKAGE))]
    assert found == [], "these modules form an import cycle"


@pytest.mark.parametrize(
    "text",
    [
        "import shop.till.drawer",
        "from shop.till import drawer",
        "from shop.till.drawer import Drawer",
        "from .drawer import Drawer",
        "from . import drawer",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import shop.till.drawer",
        "def open() -> None:\n    from shop.till import drawer",
    ],
)
def test_a_circle_is_found_however_the_import_is_written(tmp_path: Path, text: str) -> None:
    till = tmp_path / "shop" / "till"
    till.mkdir(parents=True)
    for file in (till.parent / "__init__.py", till / "__init__.py", till / "other.py"):
        file.write_text("import json\n")
    (till / "drawer.py").write_text("import shop.till.coin, shop.till.other\n")
    (till / "coin.py").write_text("import shop.till.lid\n")
    (till / "lid.py").write_text(text)
    graph = import_graph(till.parent)
    assert circles(graph) == {frozenset({"shop.till.drawer", "shop.till.coin", "shop.till.lid"})}
    assert circles(graph | {"shop.till.lid": set()}) == set()


KINDS = ("Call", "Attempt", "Entry")


class Uses:
    """Which fields of calls, attempts and entries one module writes and reads, except in constructors."""

    def __init__(self, name: str, text: str) -> None:
        nodes = nodes_of(text)
        self._names = SUBJECTS | {
            argument.arg: kind
            for argument in nodes
            if isinstance(argument, ast.arg) and argument.annotation is not None
            for kind in KINDS
            if kind in ast.unparse(argument.annotation).split(" | ")
        }
        for file, other in OTHER_SUBJECTS:
            if file == name:
                del self._names[other]
        self.writes: set[tuple[str, str]] = set()
        self.reads: set[tuple[str, str]] = set()
        if re.search(rf"^\s*class ({'|'.join(KINDS)})\b", text, re.MULTILINE):
            self._visit(parsed(text), None)
        else:  # `self` is none of them: a node needs no look at what is around it
            for node in nodes:
                if isinstance(node, (ast.Attribute, ast.Call)):
                    self._use(node, None)

    def _visit(self, node: ast.AST, owner: str | None) -> None:
        if isinstance(node, ast.ClassDef):
            owner = node.name if node.name in KINDS else None
        elif isinstance(node, ast.FunctionDef) and node.name == "__init__" and owner is not None:
            return
        self._use(node, owner)
        for child in ast.iter_child_nodes(node):
            self._visit(child, owner)

    def _use(self, node: ast.AST, owner: str | None) -> None:
        if isinstance(node, ast.Attribute):
            kind = self._kind(node.value, owner)
            if kind is not None:
                (self.reads if isinstance(node.ctx, ast.Load) else self.writes).add((kind, node.attr))
        elif isinstance(node, ast.Call) and _name(node.func) in ("setattr", "delattr", "__setattr__"):
            kind = self._kind(node.args[0], owner)
            if kind is not None:
                self.writes.add((kind, ast.literal_eval(node.args[1])))

    def _kind(self, value: ast.expr, owner: str | None) -> str | None:
        """What an expression stands for, by its last name."""
        if isinstance(value, ast.Name) and value.id == "self":
            return owner
        if isinstance(value, ast.Call):
            return "Attempt" if _name(value.func).endswith("attempt_of") else None
        return self._names.get(_name(value).lstrip("_"))


def _name(value: ast.expr) -> str:
    """The last name of an expression."""
    return value.id if isinstance(value, ast.Name) else value.attr if isinstance(value, ast.Attribute) else ""


def fields_of(kind: type) -> set[str]:
    return set(kind.__annotations__)


def test_each_field_of_a_call_has_its_writer() -> None:
    from clicket.engine.journal import Entry
    from clicket.engine.live_call import WRITERS, Attempt, Call

    fields = {"Call": fields_of(Call), "Attempt": fields_of(Attempt), "Entry": fields_of(Entry)}
    assert not fields["Call"] & fields["Attempt"], "a field of WRITERS must name one of them"
    writers: dict[str, set[str]] = {}
    journal: set[str] = set()
    read: set[str] = set()
    for path in MODULES:
        uses = Uses(name_of(path), path.read_text())
        module = "clicket." + name_of(path).removesuffix(".py").replace("/", ".")
        read |= {field for kind, field in uses.reads if kind != "Entry"}
        for kind, field in uses.writes:
            if kind == "Entry":
                journal.add(module)
                assert field in fields["Entry"] | {"_events", "_units"}, (
                    f"{module} writes entry.{field}, which is not a field"
                )
            else:
                writers.setdefault(field, set()).add(module)
                assert field in fields[kind], f"{module} writes {kind}.{field}, which is not a field"
    named = {field: {who} if isinstance(who, str) else set(who) for field, who in WRITERS.items()}
    assert writers == named, (
        "write through a function of the field's own module, or change WRITERS in engine/live_call.py"
    )
    assert journal <= {
        "clicket.engine.journal.entry",
        "clicket.engine.journal.journal",
        "clicket.engine.journal.staging",
    }, "only the journal writes entries"
    assert (fields["Call"] | fields["Attempt"]) - read == set(), "fields that no module reads"


@pytest.mark.parametrize(
    "code",
    [
        "call.slot = True",
        "self._call.slot = True",
        "self.call.slot += 1",
        "x, (call.slot, y) = 1, (2, 3)",
        "for call.slot in x: pass",
        "with x as flight.leader.slot: pass",
        "del follower.slot",
        'setattr(call, "slot", True)',
        "def f(c: Call | None): c.slot = True",
        "def f(*, c: Call): c.slot = True",
    ],
)
def test_a_stray_write_is_seen(code: str) -> None:
    assert Uses("engine/stray.py", code).writes == {("Call", "slot")}


def test_a_stray_write_into_an_attempt_or_an_entry_is_seen() -> None:
    code = "attempt_of(call).late = 1\ncall.attempt.stopper = 1\nself._attempt.prepared = 1\ncall.entry.state = 1\nentry.seq = 1"
    writes = {
        ("Attempt", "late"),
        ("Attempt", "stopper"),
        ("Attempt", "prepared"),
        ("Entry", "state"),
        ("Entry", "seq"),
    }
    assert Uses("engine/stray.py", code).writes == writes


def test_every_folder_is_a_package() -> None:
    folders = {path.parent for path in MODULES}
    assert [name_of(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def import_clicket(code: str) -> str:
    """Run `code` in a fresh interpreter, without coverage, which would slow it down and import modules."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    return done.stdout


def test_import_loads_nothing_that_can_wait() -> None:
    loaded = json.loads(import_clicket("import sys, json, clicket; print(json.dumps(sorted(sys.modules)))"))
    assert [name for name in LAZY if name in loaded] == []


def test_import_is_quick() -> None:
    # CPU time, not wall time: other load on the machine does not count.
    code = "import time; t = time.process_time(); import clicket; print(time.process_time() - t)"
    assert min(float(import_clicket(code)) for _ in range(5)) < 0.3


def test_public_names_are_few_and_real() -> None:
    import clicket

    assert len(clicket.__all__) <= 40
    assert [name for name in clicket.__all__ if not hasattr(clicket, name)] == []
    assert len(set(clicket.__all__)) == len(clicket.__all__)


def test_diagrams_are_drawn_from_the_tables() -> None:
    spec = importlib.util.spec_from_file_location("diagrams", ROOT / "scripts" / "diagrams.py")
    assert spec is not None
    assert spec.loader is not None
    diagrams = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(diagrams)
    page = (ROOT / "ARCHITECTURE.md").read_text()
    assert diagrams.redraw(page) == page, "run make docs"
    spoiled = page.replace("pending --> running", "").replace("pending --> initializing", "pending --> completed", 1)
    assert diagrams.redraw(spoiled) == page
    guides = [
        text for path in sorted((ROOT / "docs").rglob("*.md")) if "<!-- table:" in (text := path.read_text("utf-8"))
    ]
    assert guides
    assert [diagrams.redraw(text, every=False) == text for text in guides] == [True] * len(guides), "run make docs"


# ARCHITECTURE.md names what is there.


def section(heading: str) -> str:
    page = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def engine_drawing() -> tuple[set[str], set[tuple[str, str]]]:
    """Every module that the drawing of the engine names, and its solid arrows. The box of small parts lists several."""
    drawing = section("The parts of the engine").split("```mermaid\n")[1].split("```")[0]
    (small,) = re.findall(r'small\["[^:]+: ([\w ]+)"\]', drawing)
    plain = re.sub(r"\(?\[.*?\]\)?", "", drawing)  # without labels
    lines = [line for line in plain.splitlines() if "-->" in line and "-." not in line]
    arrows = {
        (source.strip(), target.strip())
        for line in lines
        for source, targets in [line.split("-->")]
        for target in targets.split("&")
    }
    boxes = set(re.findall(r'^    (\w+)\["', drawing, re.MULTILINE)) | {name for arrow in arrows for name in arrow}
    return (boxes - {"small"}) | set(small.split()), arrows


# Packages of the engine that describe their own parts. Of the others the drawing has every module.
OWN_PARTS = {"call", "executors", "hub", "journal", "spend", "stages"}


def engine_parts() -> dict[str, str]:
    """The modules that the drawing of the engine names, and their dotted names below the engine."""
    home = PACKAGE / "engine"
    parts = {
        path.stem: path.stem for path in home.iterdir() if path.stem not in ("__init__", "__pycache__", "live_call")
    }
    for folder in [name for name in parts if (home / name).is_dir() and name not in OWN_PARTS]:
        del parts[folder]
        parts |= {
            path.stem: f"{folder}.{path.stem}" for path in (home / folder).glob("*.py") if path.stem != "__init__"
        }
    return {name: place for name, place in parts.items() if name not in OWN_PARTS - {"call"}}


def test_the_drawing_of_the_engine_has_every_part() -> None:
    named, _ = engine_drawing()
    assert named == set(engine_parts())


def test_the_opening_of_each_part_of_the_engine_names_its_modules() -> None:
    folders = [
        PACKAGE / "engine",
        *((PACKAGE / "engine" / place.partition(".")[0]) for place in engine_parts().values()),
    ]
    for folder in {folder for folder in folders if folder.is_dir()} - {PACKAGE / "engine" / "call"}:
        opening = ast.get_docstring(parsed((folder / "__init__.py").read_text())) or ""
        named = {
            name for line in re.findall(r"^- (.+?):", opening, re.MULTILINE) for name in re.findall(r"`(\w+)`", line)
        }
        assert named == {path.stem for path in folder.iterdir()} - {"__init__", "__pycache__"}, folder.name


def test_solid_arrows_of_the_engine_are_imports() -> None:
    _, arrows = engine_drawing()
    graph = import_graph(PACKAGE)
    drawn = {arrow for arrow in arrows if arrow[1] != "small"}
    assert len(drawn) > 40
    parts = engine_parts()

    def imports(arrow: tuple[str, str]) -> bool:
        source, target = (f"clicket.engine.{parts[name]}" for name in arrow)
        return any(name == target or name.startswith(target + ".") for name in graph[source])  # `call` is a package

    assert [arrow for arrow in sorted(drawn) if not imports(arrow)] == []


def test_the_table_of_folders_has_every_floor_of_the_contract() -> None:
    """In the contract's order. A floor may have several rows."""
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"][0]
    floors = {name: at for at, layer in enumerate(contract["layers"]) for name in layer.split(" | ")}
    rows = [line for line in section("Folders").splitlines() if line.startswith("| `")]
    named = [re.findall(r"`(\w+)(?:/|\.py)`", re.split(r"(?<!\\)\|", row)[1]) for row in rows]
    listed = [name for names in named for name in names]
    assert sorted(listed) == sorted(floors)
    order = [sorted({floors[name] for name in names}) for names in named]
    assert all(len(at) == 1 for at in order), "a row names modules of one floor"
    assert order == sorted(order)


def names_of_modules(opening: str) -> set[str]:
    """What a docstring names in backticks, or to the left in a list with two columns."""
    columns = re.findall(r"^ *(\w+(?:, \w+)*)  +\S", opening, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", opening)) | {name for column in columns for name in column.split(", ")}


def test_each_module_is_named_in_the_opening_of_its_package_or_in_a_table() -> None:
    """A table names a module where the row, or the head of the table, names the package as well. Generated modules say so."""
    tables = re.findall(r"^(\|.*\n)\|[-|]+\n((?:\|.*\n)+)", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.MULTILINE)
    rows = [set(re.findall(r"`([^`]+)`", head + row)) for head, body in tables for row in body.splitlines()]
    missing = []
    for folder in sorted({path.parent for path in MODULES}):
        opening = ast.get_docstring(parsed((folder / "__init__.py").read_text())) or ""
        named = names_of_modules(opening).union(
            *(row for row in rows if folder == PACKAGE or f"{name_of(folder)}/" in row)
        )
        missing += [
            name_of(path)
            for path in sorted(folder.glob("*.py"))
            if not {path.stem, path.name} & named and path.stem not in ("__init__", "__main__")
            if "\nWritten by `scripts/" not in (ast.get_docstring(parsed(path.read_text())) or "")
        ]
    assert missing == [], "say in the docstring of the package what these modules hold"
