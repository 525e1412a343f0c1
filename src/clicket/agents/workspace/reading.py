"""The tools that read in a workspace. They change nothing, so they may always run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from clicket.agents.workspace.lines import MAX_FILE, lines_of, numbered, version_of
from clicket.system.folder import Entry, FileRefused, Folder, Parts, digest_of, text_of
from clicket.tools import ToolContext

__all__ = ["Reader"]

_MAX_LINES = 2_000
_MAX_LISTED = 1_000
_MAX_LOOKED_AT = 50_000
"""Files that one search looks at."""
_MAX_HIT = 300
_SKIPPED = frozenset({".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules"})
"""Folders that searches leave out, unless the path names one."""


class Reader:
    """Its methods are the tools."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def tools(self) -> list[Callable[..., Any]]:
        return [self.read_file, self.list_files, self.find_files, self.search_files]

    def read_file(self, path: str, start_line: int = 1, lines: int = _MAX_LINES) -> str:
        """Read a text file of the workspace: `lines` lines from `start_line` on, each with its number. Paths are relative to the
        workspace. The first line of the result names the version of the file. Read a file before you change it."""
        if start_line < 1 or not 1 <= lines <= _MAX_LINES:
            raise FileRefused(f"start_line is at least 1, and lines is from 1 to {_MAX_LINES:,}")
        parts = self._folder.parts(path)
        data = self._folder.read(parts, MAX_FILE)
        version = version_of(digest_of(data))
        found = lines_of(text_of(data, path))
        name = "/".join(parts)
        if not found:
            return f"[{name}: empty, version {version}]"
        if start_line > len(found):
            raise FileRefused(f"{name!r} has {len(found):,} lines, so there is no line {start_line:,}")
        shown, last = numbered(found, start_line, start_line + lines - 1)
        more = "" if last == len(found) else f"\n[read on with start_line={last + 1}]"
        return f"[{name}: lines {start_line} to {last} of {len(found)}, version {version}]\n{shown}{more}"

    def list_files(self, path: str = ".") -> str:
        """List a folder of the workspace: folders end in '/', files come with their size."""
        entries = self._folder.listed(self._folder.parts(path))
        shown = [_shown(entry) for entry in entries[:_MAX_LISTED]]
        if len(entries) > _MAX_LISTED:
            shown.append(f"[and {len(entries) - _MAX_LISTED:,} more]")
        return "\n".join(shown) or "[the folder is empty]"

    def find_files(self, pattern: str, ctx: ToolContext, path: str = ".") -> str:
        """Find files of the workspace by their names: '*.py' for a name in any folder, 'src/**/test_*.py' for a path below `path`."""
        found = list(_matching(self._folder, path, pattern, _MAX_LISTED + 1, ctx))
        shown = [entry.path for entry in found[:_MAX_LISTED]]
        if len(found) > _MAX_LISTED:
            shown.append(f"[and more: the first {_MAX_LISTED:,} are shown; use a narrower pattern]")
        return "\n".join(shown) or f"[no file fits {pattern!r}]"

    def search_files(
        self, text: str, ctx: ToolContext, path: str = ".", files: str = "*", ignore_case: bool = False
    ) -> str:
        """Find the lines of files of the workspace that contain a text (not a regular expression). `files`: a pattern as for
        find_files. Binary and very big files are left out."""
        if not text or "\n" in text:
            raise FileRefused("text is what one line has in it, and not empty")
        hits: list[str] = []
        for entry in _matching(self._folder, path, files, _MAX_LOOKED_AT, ctx):
            hits += _hits(self._folder, entry, text, ignore_case)
            if len(hits) > _MAX_LISTED:
                return "\n".join([*hits[:_MAX_LISTED], "[and more: use a narrower text, path or pattern]"])
        return "\n".join(hits) or f"[no line contains {text!r}]"


def _hits(folder: Folder, entry: Entry, text: str, ignore_case: bool) -> list[str]:
    try:
        content = text_of(folder.read(entry.parts, MAX_FILE), entry.path)
    except FileRefused:  # binary, big, or removed meanwhile
        return []
    if ignore_case:
        text = text.casefold()
    return [
        f"{entry.path}:{number}: {line.strip()[:_MAX_HIT]}"
        for number, line in enumerate(lines_of(content), start=1)
        if text in (line.casefold() if ignore_case else line)
    ]


def _matching(folder: Folder, path: str, pattern: str, most: int, ctx: ToolContext) -> Iterator[Entry]:
    """The files below a folder whose path fits, up to a number of them; a bounded number of files is looked at."""
    start = folder.parts(path)
    wanted = tuple(part for part in pattern.split("/") if part not in ("", "."))
    if not wanted or len(pattern) > _MAX_HIT or ".." in wanted:
        raise FileRefused(f"{pattern[:100]!r} is not a pattern: write '*.py', or 'src/**/*.py'")
    if len(wanted) == 1:
        wanted = ("**", *wanted)
    for number, entry in enumerate(folder.walk(start, _SKIPPED)):
        if number >= _MAX_LOOKED_AT or ctx.cancelled:
            raise FileRefused(f"there are more than {_MAX_LOOKED_AT:,} files below {path!r}: name a folder in `path`")
        if _fits(entry.parts[len(start) :], wanted):
            yield entry
            most -= 1
            if not most:
                return


def _fits(parts: Parts, pattern: tuple[str, ...]) -> bool:
    """`**` stands for any number of folders."""
    reached = {0}
    for part in (*parts, None):
        for place in sorted(reached):
            while place < len(pattern) and pattern[place] == "**":  # it may stand for none
                place += 1  # noqa: PLW2901
                reached.add(place)
        if part is None:
            break
        reached = {
            place if pattern[place] == "**" else place + 1
            for place in reached
            if place < len(pattern) and (pattern[place] == "**" or fnmatchcase(part, pattern[place]))
        }
    return len(pattern) in reached


def _shown(entry: Entry) -> str:
    name = entry.parts[-1]
    kinds = {"file": f"{name} ({entry.size:,} bytes)", "folder": f"{name}/", "link": f"{name} (a link, not followed)"}
    return kinds.get(entry.kind, f"{name} (a pipe or device)")
