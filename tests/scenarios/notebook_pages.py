"""Parser of the notebook tasks: a page has tasks (`##`), a task has calls (`###`), a call has fenced blocks.

Lines before the first block are options: `Files:` input files, `Raises:` the expected error, `Exit:` the expected code.
On top of a page, `Session: shared` keeps one session for all of its tasks, `Session: fresh` opens one for each.
"""

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("notebook_tasks")
DATA = FOLDER / "data"
PAGES = sorted(FOLDER.glob("*.md"))

_FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAID = re.compile(r"^(Session|Files|Raises|Exit): (.*)$", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Call:
    """One run: its Markdown, and its code."""

    task: str
    markdown: str
    blocks: tuple[str, ...]
    files: tuple[str, ...]
    raises: tuple[str, ...]
    exit_code: int | None


@dataclass(frozen=True, kw_only=True)
class Page:
    name: str
    sessions: tuple[tuple[Call, ...], ...]

    @property
    def tasks(self) -> list[str]:
        return list(dict.fromkeys(call.task for session in self.sessions for call in session))


def read(path: Path) -> Page:
    (_, head), *tasks = _sections(path.read_text(encoding="utf-8"), "## ")
    kind = _option(head, "Session")
    sessions = [_calls(title, body, path.stem) for title, body in tasks]
    assert kind in (["shared"], ["fresh"]), f"{path.name}: say `Session: shared` or `Session: fresh` on top"
    if kind == ["shared"]:
        sessions = [[call for calls in sessions for call in calls]]
        first = sessions[0][0]
        sessions[0][0] = Call(**{**vars(first), "files": (*_option(head, "Files"), *first.files)})
    return Page(name=path.stem, sessions=tuple(tuple(session) for session in sessions))


def _calls(title: str, body: str, page: str) -> list[Call]:
    found = []
    for _, text in _sections(body, "### "):
        exits = _option(text, "Exit")
        call = Call(
            task=f"{page}: {title}",
            markdown=text,
            blocks=tuple(match[1] for match in _FENCE.finditer(text)),
            files=tuple(_option(text, "Files")),
            raises=tuple(_option(text, "Raises")),
            exit_code=int(exits[0]) if exits else None,
        )
        assert call.blocks, f"{call.task}: a call without a block"
        found.append(call)
    return found


def _sections(text: str, mark: str) -> list[tuple[str, str]]:
    """Title and text of each heading of this level, first the text before them; a line of code is not a heading."""
    titles, parts = [""], [""]
    fenced = False
    for line in text.splitlines(keepends=True):
        fenced ^= line.startswith("```")
        if line.startswith(mark) and not fenced:
            titles.append(line.removeprefix(mark).strip())
            parts.append("")
        parts[-1] += line
    return list(zip(titles, parts, strict=True))


def _option(text: str, word: str) -> list[str]:
    prose = _FENCE.sub("", text)
    return [part.strip() for found, rest in _SAID.findall(prose) if found == word for part in rest.split(",")]
