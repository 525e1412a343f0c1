"""Which files of a folder are looked at. Links are not followed, so a walk ends; nothing is opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

import msgspec

from clicket.errors import UsageError

__all__ = ["EXCLUDED", "Patterns", "Seen", "Walked", "walk"]

EXCLUDED = (".*", "__pycache__", "node_modules", "site-packages")
"""Never looked at: hidden files and folders, and what others have installed or made."""


class Seen(msgspec.Struct, frozen=True, gc=False):
    """A file, by its path under the root. Times are nanoseconds: of its content, and of anything about it."""

    path: str
    size: int
    changed: int
    touched: int


class Walked(msgspec.Struct, frozen=True, kw_only=True):
    files: list[Seen]
    """By path."""
    skipped: list[tuple[str, str]]
    closed: tuple[str, ...]
    """Folders that could not be looked into, each with a slash at its end: nobody knows what is in them."""


class Patterns:
    """Patterns as in `.gitignore`: `*.log` and `build/` anywhere, `/build` and `docs/*.md` from the root, `**` for any folders."""

    def __init__(self, patterns: Iterable[str], option: str) -> None:
        if isinstance(patterns, str):
            raise UsageError(f"{option} takes a list of patterns: {option}=[{patterns!r}].")
        expressions = [_expression(one, option) for one in patterns]
        self._expression = re.compile("|".join(expressions) if expressions else "(?!)", re.DOTALL)

    def match(self, path: str, *, folder: bool = False) -> bool:
        """Is it one of them?"""
        return self._expression.fullmatch(f"{path}/" if folder else path) is not None

    def hold(self, path: str) -> bool:
        """Is it one of them, or in a folder that is?"""
        if self.match(path):
            return True
        parts = path.split("/")
        return any(self.match("/".join(parts[:count]), folder=True) for count in range(1, len(parts)))


def _expression(pattern: str, option: str) -> str:
    given = pattern
    if pattern.startswith("!") or not pattern.strip("/ "):
        raise UsageError(f"{option}: {given!r} is no pattern. Write names such as *.log, build/ or docs/**/draft-*.")
    only_folders = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anywhere = "/" not in pattern
    made = ["(?:.*/)?"] if anywhere else []
    at, pattern = 0, pattern.lstrip("/")
    while at < len(pattern):
        one = pattern[at]
        if pattern.startswith("**/", at):
            made.append("(?:.*/)?")
            at += 3
        elif pattern.startswith("**", at):
            made.append(".*")
            at += 2
        elif one == "[" and (end := pattern.find("]", at + 2)) > 0:
            inside = pattern[at + 1 : end].replace("\\", r"\\").replace("[", r"\[")
            made.append(f"[{'^' + inside[1:] if inside[0] in '!^' else inside}]")
            at = end + 1
        else:
            made.append({"*": "[^/]*", "?": "[^/]"}.get(one) or re.escape(one))
            at += 1
    return "".join(made) + ("/" if only_folders else "/?")


def walk(root: str, *, patterns: Sequence[str] | None = None, exclude: Sequence[str] = ()) -> Walked:
    """All files under `root` that are wanted. The root may be a single file."""
    wanted = None if patterns is None else Patterns(patterns, "patterns")
    unwanted = Patterns(exclude if isinstance(exclude, str) else (*EXCLUDED, *exclude), "exclude")
    files: list[Seen] = []
    skipped: list[tuple[str, str]] = []
    closed: list[str] = []
    if not os.path.isdir(root):
        found = os.stat(root)
        name = os.path.basename(root)
        return Walked(files=[_seen(name, found)], skipped=[], closed=())
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
            closed.append(under)
            continue
        for entry in listed:
            path = under + entry.name
            try:
                folder = entry.is_dir(follow_symlinks=False)
                if unwanted.match(path, folder=folder):
                    continue
                if folder:
                    folders.append(f"{path}/")
                elif wanted is not None and not wanted.hold(path):
                    continue
                elif entry.is_symlink():
                    skipped.append((path, "a symbolic link; links are not followed"))
                elif not entry.is_file(follow_symlinks=False):
                    skipped.append((path, "not a regular file"))
                else:
                    files.append(_seen(path, entry.stat(follow_symlinks=False)))
            except OSError as error:  # gone since it was listed, or a name that is too long
                skipped.append((path, (error.strerror or str(error)).lower()))
    files.sort(key=lambda one: one.path)
    return Walked(files=files, skipped=sorted(skipped), closed=tuple(sorted(closed)))


def _seen(path: str, found: os.stat_result) -> Seen:
    return Seen(path, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
