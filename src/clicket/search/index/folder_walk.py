"""Lists the files of a folder. Links are not followed, so the walk ends. No file is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from clicket.errors import UsageError

__all__ = ["EXCLUDED", "FileStat", "FolderListing", "Patterns", "walk"]

EXCLUDED = (".*", "__pycache__", "node_modules", "site-packages")
"""Always excluded: hidden files and folders, installed packages and caches."""


class FileStat(msgspec.Struct, frozen=True, gc=False):
    """A file, by its path under the root. `changed` and `touched` are its mtime and ctime in nanoseconds."""

    path: str
    size: int
    changed: int
    touched: int


class FolderListing(msgspec.Struct, frozen=True, kw_only=True):
    files: list[FileStat]
    """By path."""
    skipped: list[tuple[str, str]]
    """Path and reason."""
    unreadable: tuple[str, ...]
    """Folders that could not be listed, each with a slash at its end."""


class Patterns:
    """Patterns as in `.gitignore`: `*.log` and `build/` anywhere, `/build` and `docs/*.md` from the root, `**` for any folders."""

    def __init__(self, patterns: Iterable[str], option: str) -> None:
        if isinstance(patterns, str):
            raise UsageError(f"{option} takes a list of patterns: {option}=[{patterns!r}].")
        expressions = [_expression(one, option) for one in patterns]
        self._expression = re.compile("|".join(expressions) if expressions else "(?!)", re.DOTALL)

    def match(self, path: str, *, folder: bool = False) -> bool:
        """Does the path itself match?"""
        return self._expression.fullmatch(f"{path}/" if folder else path) is not None

    def includes(self, path: str) -> bool:
        """Does the path or one of its parent folders match?"""
        if self.match(path):
            return True
        parts = path.split("/")
        return any(self.match("/".join(parts[:count]), folder=True) for count in range(1, len(parts)))


def _expression(pattern: str, option: str) -> str:
    if pattern.startswith("!") or not pattern.strip("/ "):
        raise UsageError(
            f"{option}: {pattern!r} is not a pattern. Write names such as *.log, build/ or docs/**/draft-*."
        )
    only_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anywhere = "/" not in pattern
    expression = ["(?:.*/)?"] if anywhere else []
    at, pattern = 0, pattern.lstrip("/")
    while at < len(pattern):
        one = pattern[at]
        if pattern.startswith("**/", at):
            expression.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            expression.append(".*")
            at += 2
        elif one == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            expression.append(f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            at = end + 1
        else:
            expression.append({"*": "[^/]*", "?": "[^/]"}.get(one) or re.escape(one))
            at += 1
    return "".join(expression) + ("/" if only_folders else "/?")


def walk(root: str, *, patterns: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> FolderListing:
    """The files under `root` that match `patterns` and not `exclude`. The root may be a single file."""
    wanted = None if patterns is None else Patterns(patterns, "patterns")
    unwanted = Patterns(exclude if isinstance(exclude, str) else (*EXCLUDED, *exclude), "exclude")
    files: list[FileStat] = []
    skipped: list[tuple[str, str]] = []
    unreadable: list[str] = []
    if not os.path.isdir(root):
        return FolderListing(files=[_stat(os.path.basename(root), os.stat(root))], skipped=[], unreadable=())
    folders = [""]
    while folders:
        under = folders.pop()
        try:
            with os.scandir(os.path.join(root, under)) as entries:
                listed = list(entries)
        except OSError as error:
            if not under:
                raise UsageError(f"{root} cannot be read: {error.strerror or error}.") from None
            skipped.append((under, f"the folder cannot be read: {(error.strerror or str(error)).lower()}"))
            unreadable.append(under)
            continue
        for entry in listed:
            path = under + entry.name
            try:
                folder = entry.is_dir(follow_symlinks=False)
                if unwanted.match(path, folder=folder):
                    continue
                if folder:
                    folders.append(f"{path}/")
                elif wanted is not None and not wanted.includes(path):
                    continue
                elif entry.is_symlink():
                    skipped.append((path, "a symbolic link; links are not followed"))
                elif not entry.is_file(follow_symlinks=False):
                    skipped.append((path, "not a regular file"))
                else:
                    files.append(_stat(path, entry.stat(follow_symlinks=False)))
            except OSError as error:  # removed since it was listed, or its name is too long
                skipped.append((path, (error.strerror or str(error)).lower()))
    files.sort(key=lambda file: file.path)
    return FolderListing(files=files, skipped=sorted(skipped), unreadable=tuple(sorted(unreadable)))


def _stat(path: str, found: os.stat_result) -> FileStat:
    return FileStat(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
