"""The tools that write in a workspace, and what is found out about an edit after a crash.

The law: the digests of the file before and after an edit are on record before the edit has an effect. So the file says later whether it
happened: it has the digest after, the digest before, or neither, and then the outcome is not known.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from clicket.agents.workspace.lines import MAX_FILE, version_of
from clicket.system.folder import MISSING, FileMissing, FileRefused, Folder, Parts, digest_of, text_of
from clicket.tools import CallInDoubt, DidNotHappen, Happened, ToolContext, Unknown

__all__ = ["Editor"]

_KEPT = "edit"


class _Edit(msgspec.Struct, frozen=True, kw_only=True):
    """As it is kept with the call. `text`: the output of the tool."""

    path: str
    before: str
    after: str
    text: str


class _Draft(NamedTuple):
    """What a file becomes, and what was done in words."""

    data: bytes
    done: str


class Editor:
    """`tools` are two of its methods, and `check` finds out about their calls after a crash."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    @property
    def tools(self) -> list[Callable[..., Any]]:
        return [self.write_file, self.edit_file]

    def write_file(self, path: str, content: str, ctx: ToolContext, version: str = "") -> str:
        """Write a text file of the workspace, new or in place of one that you have read. Folders that are missing are made. `version`:
        leave it out; it is the one that you have read."""

        def draft(old: bytes | None) -> _Draft:
            if old is not None and not version:
                raise FileRefused(f"{path!r} is there already. Read it first, or change it with edit_file")
            data = content.encode()
            if len(data) > MAX_FILE:
                raise FileRefused(f"the content has {len(data):,} bytes, and {MAX_FILE:,} are allowed")
            return _Draft(data, f"{'written' if old is None else 'written anew'}, {len(data):,} bytes")

        return self._change(path, draft, version, ctx)

    def edit_file(
        self, path: str, old: str, new: str, ctx: ToolContext, replace_all: bool = False, version: str = ""
    ) -> str:
        """Replace a text in a file of the workspace. `old` must be in the file exactly so, with its spaces and line ends and without
        line numbers, and once unless `replace_all`: take as many lines around it as make it unique. `version`: leave it out; it is
        the one that you have read."""

        def draft(data: bytes | None) -> _Draft:
            if data is None:
                raise FileMissing(f"there is no {path!r} in the workspace; write_file makes a new file")
            text = text_of(data, path)
            wanted, put = old, new
            if "\r\n" in text and wanted not in text:  # models write the line ends of Unix
                wanted, put = (each.replace("\r\n", "\n").replace("\n", "\r\n") for each in (old, new))
            count = text.count(wanted) if wanted else 0
            _check(path, wanted == put, count, replace_all)
            changed = text.replace(wanted, put)
            if len(changed.encode()) > MAX_FILE:
                raise FileRefused(f"the file would be bigger than {MAX_FILE:,} bytes")
            line = text.count("\n", 0, text.index(wanted)) + 1
            times = "" if count == 1 else f" and {count - 1} more"
            return _Draft(changed.encode(), f"edited at line {line}{times}")

        return self._change(path, draft, version, ctx)

    def _change(self, path: str, draft: Callable[[bytes | None], _Draft], version: str, ctx: ToolContext) -> str:
        """Write what becomes of a file, unless it has changed since that version was read."""
        parts, mark = self._folder.parts(path), ctx.idempotency_key
        try:
            old: bytes | None = self._folder.read(parts, MAX_FILE)
        except FileMissing:
            old = None
        before = MISSING if old is None else digest_of(old)
        if old is not None and version and version != version_of(before):
            raise _stale(path, version, before)
        try:
            made = draft(old)
        except UnicodeEncodeError:
            raise FileRefused("the text has half a character in it, which no file can hold") from None
        after = digest_of(made.data)
        name = "/".join(parts)
        text = f"[{name}: {made.done}, version {version_of(after)}]"
        if after == before:
            return f"[{name}: not changed, it has this content already, version {version_of(after)}]"
        try:
            self._folder.prepare(parts, made.data, mark)
            ctx.note(f"{name}: {version_of(before)} becomes {version_of(after)}", path=name, before=before, after=after)
            edit = _Edit(path=name, before=before, after=after, text=text)
            asyncio.run(ctx.checkpoint(_KEPT, msgspec.json.encode(edit)))
            found = before if ctx.cancelled else self._folder.commit(parts, mark, before, MAX_FILE)
        except OSError as error:
            raise FileRefused(f"{path!r} cannot be written: {error.strerror}") from error
        if found is not None:
            self._folder.discard(parts, mark)
            raise _stale(path, version or before, found)
        return text

    def check(self, call: CallInDoubt, ctx: ToolContext) -> Happened | DidNotHappen | Unknown:
        kept = asyncio.run(ctx.checkpoints()).get(_KEPT)
        if kept is None:  # it is kept before the file is touched
            return DidNotHappen()
        edit = msgspec.json.decode(kept, type=_Edit)
        parts: Parts = self._folder.parts(edit.path)
        try:
            now = self._folder.digest(parts, MAX_FILE)
        except FileRefused as error:
            return Unknown(f"{edit.path!r} cannot be read: {error.message}")
        self._folder.discard(parts, call.idempotency_key)
        if now == edit.after:
            return Happened(edit.text)
        if now == edit.before:
            return DidNotHappen()
        return Unknown(
            f"{edit.path!r} has the digest {now} now: neither the one before the edit ({edit.before}) nor the one after it "
            f"({edit.after}). Somebody else has changed it since"
        )


def _check(path: str, is_same: bool, count: int, replace_all: bool) -> None:
    if is_same:
        raise FileRefused("old and new are the same, so there is nothing to change")
    if not count:
        raise FileRefused(
            f"old is not in {path!r} exactly so. Read the file, and copy the text with its spaces, without line numbers"
        )
    if count > 1 and not replace_all:
        raise FileRefused(
            f"old is in {path!r} {count} times. Take more lines around it, so that it is there once, or set replace_all"
        )


def _stale(path: str, version: str, found: str) -> FileRefused:
    now = "is not there any more" if found == MISSING else f"has version {version_of(found)} now"
    was = "and it was not there" if version == MISSING else f"not the version {version_of(version)} that you have read"
    return FileRefused(
        f"nothing was written: {path!r} {now}, {was}. Another edit came first, yours or somebody else's. Read the file again, then make "
        "one edit of it at a time"
    )
