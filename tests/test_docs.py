"""Every Python block of the README and the docs runs, and so does every example.

The blocks of one page share a namespace and run in order in an empty folder; top-level `await` is allowed, as in the
asyncio shell. A block below `<!-- no-run -->` is left out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.forks import SERVER, forked
from tests.kit.waiting import PATIENCE

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TRANSLATED = ROOT / "docs" / "zh-CN"
SDKS = ("anthropic", "openai", "langgraph.prebuilt", "pydantic_ai")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
BLOCK = re.compile(r"^(?P<skip><!-- no-run[^\n]*-->\n+)?```python\n(?P<code>.*?)^```", re.MULTILINE | re.DOTALL)

# Runs the blocks it is given as (line, code) pairs; tracebacks show the page's own lines.
DRIVER = """
import ast, asyncio, inspect, json, linecache, sys
page, blocks = json.load(sys.stdin)
namespace = sys.modules["__main__"].__dict__
lines = []
for start, code in blocks:
    lines += [""] * (start - len(lines)) + code.splitlines()
linecache.cache[page] = (0, None, [line + "\\n" for line in lines], page)
with asyncio.Runner() as runner:
    for start, code in blocks:
        compiled = compile("\\n" * start + code, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        if compiled.co_flags & inspect.CO_COROUTINE:
            async def block():
                await eval(compiled, namespace)
            runner.run(block())
        else:
            exec(compiled, namespace)
"""


def blocks(page: Path) -> list[tuple[int, str]]:
    """The blocks to run, each with the number of lines above it."""
    text = page.read_text()
    return [
        (text.count("\n", 0, match.start("code")), match["code"]) for match in BLOCK.finditer(text) if not match["skip"]
    ]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(text: str) -> tuple[str, str]:
    """Forks a process that has what these blocks or this example import. The SDKs take seconds, so only those that it names."""
    sdks = [name for name in SDKS if re.search(rf"^\s*(?:from|import) {name.partition('.')[0]}\b", text, re.MULTILINE)]
    return forked(*SERVER, "clicket.client", "clicket.testing", *sdks)


def run(command: list[str], tmp_path: Path, env: dict[str, str], given: str = "") -> None:
    done = subprocess.run(
        command, input=given, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stdout + done.stderr


# A translated page has the blocks of its original (see below): it runs with the slow tests, too.
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if page.is_relative_to(TRANSLATED) else [])
        for page in PAGES
        if page.exists() and blocks(page)
    ],
)
def test_page_runs(page: Path, tmp_path: Path, clean_env: dict[str, str]) -> None:
    command = [sys.executable, *imported(page.read_text("utf-8")), "-c", DRIVER]
    run(command, tmp_path, clean_env, json.dumps([name_of(page), blocks(page)]))


def test_the_readme_runs_again_in_the_same_folder(tmp_path: Path, clean_env: dict[str, str]) -> None:
    """Users run it twice: the second time its calls are in the store already."""
    page = ROOT / "README.md"
    (block,) = [block for block in blocks(page) if "SIGKILL" in block[1]]
    given = json.dumps([name_of(page), [block]])
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, *imported(block[1]), "-c", DRIVER], input=given, cwd=tmp_path, env=clean_env, capture_output=True, text=True,
            check=False, timeout=PATIENCE,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.split() == "failed outcome_unknown completed 2 sent to Ann".split()


def test_the_tutorial_can_be_pasted(tmp_path: Path, clean_env: dict[str, str]) -> None:
    """Into `python -m asyncio`, which ends a statement at the first empty line; and again and again in the same folder, where its calls,
    and the failures of its tools, are in the store already: a tool is hidden in a thread after three of them."""
    pasted = "".join(f"{code}\n\n" for _, code in blocks(ROOT / "docs" / "tutorial.md")) * 4
    done = subprocess.run(
        [sys.executable, "-m", "asyncio"], input=pasted, cwd=tmp_path, env=clean_env, capture_output=True, text=True,
        check=False, timeout=PATIENCE,
    )  # fmt: skip
    assert done.returncode == 0
    assert "Error" not in done.stderr, done.stderr


@pytest.mark.parametrize("example", EXAMPLES, ids=name_of)
def test_example_runs(example: Path, tmp_path: Path, clean_env: dict[str, str]) -> None:
    text = example.read_text("utf-8")
    assert len(text.splitlines()) < 80
    run([sys.executable, *imported(text), str(example)], tmp_path, clean_env)


def test_there_is_something_to_run() -> None:
    assert blocks(ROOT / "README.md")
    assert EXAMPLES


def test_driver_runs_blocks_in_order_with_await_and_shows_the_page_in_errors(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n```python\nimport asyncio\nx = 1\n```\n\n<!-- no-run -->\n```python\nnonsense!\n```\n\n"
        "```python\nawait asyncio.sleep(0)\nx += 1\n```\n\n```sh\nexit 1\n```\n\n```python\nassert x == 3, x\n```\n"
    )
    given = json.dumps(["page.md", blocks(page)])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], input=given, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 1
    assert "AssertionError: 2" in done.stderr
    assert 'File "page.md", line 23' in done.stderr


def test_the_reference_is_that_of_the_code(clean_env: dict[str, str], tmp_path: Path) -> None:
    """Fails if `make docs` was not run after a change of the public API."""
    done = subprocess.run(
        [
            sys.executable,
            *imported("\n".join(f"import {name}" for name in SDKS)),
            str(ROOT / "scripts" / "docs.py"),
            "--check",
        ],
        cwd=ROOT,
        env=clean_env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


DESIGN_NAMES = """
    AgentBuilder AgentService AgentState AsyncBatchProcessor AsyncToolExecutor BaseTool BuiltinTool CacheItem CodeInterpreterStateMachine
    CodeInterpreterTool CodeState ConcurrencyLimiter DeepSearchStateMachine DeepSearchTool ExecutionMetrics ExecutionPipeline
    ExecutionRecord ITool IToolExecutor NativeTool ProgressMonitor RestTool SearchState StatefulBaseTool StreamingToolExecutor
    ToolExecutionContext ToolExecutionMonitor ToolExecutionPersistenceManager ToolExecutionState ToolHub ToolRegistry ToolResultBlock
    ToolResultCacheManager ToolStateMachine ToolStreamResult ToolUseBlock appendOutput cancelExecution clear_cache executeAsync
    executeStream getExecutionReport getExecutionState getPerformanceAnomalies getToolStatesSummary onStateChanged report_progress
    reportToolExecutionResult saveExecutionState serializeToolStates updateToolStatus
""".split()


@pytest.mark.parametrize("page", ["docs/guides/migrating.md", "docs/zh-CN/guides/migrating.md"])
def test_the_names_of_the_design_documents_are_mapped_to_ours(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert [name for name in DESIGN_NAMES if name not in text] == []


LINK = re.compile(r"\[[^\]\n]*\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


def test_links_between_pages_lead_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in LINK.findall(FENCE.sub("", page.read_text("utf-8")))]
    assert len(links) > len(PAGES), "links are found"
    assert [(name_of(page), link) for page, link in links if not (page.parent / link).exists()] == []


FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CHINESE = sorted(TRANSLATED.rglob("*.md"))


@pytest.mark.parametrize("page", CHINESE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_translated_page_shows_the_same_code(page: Path) -> None:
    name = page.relative_to(TRANSLATED).as_posix()
    english = ROOT / "README.md" if name == "README.md" else ROOT / "docs" / name
    assert FENCE.findall(page.read_text("utf-8")) == FENCE.findall(english.read_text("utf-8"))


@pytest.mark.parametrize("readme", [ROOT / "README.md", TRANSLATED / "README.md"], ids=name_of)
def test_every_page_is_listed_in_the_readme(readme: Path) -> None:
    """A page that is not there is found by nobody who does not know of it."""
    docs = TRANSLATED if readme.is_relative_to(TRANSLATED) else ROOT / "docs"
    pages = {page.resolve() for page in [*docs.glob("*.md"), *docs.glob("guides/*.md")]} - {readme.resolve()}
    text = " ".join(readme.read_text("utf-8").split())  # the text of a link may have a line break
    linked = {(readme.parent / link).resolve() for link in LINK.findall(text)}
    assert [name_of(page) for page in sorted(pages - linked)] == []
