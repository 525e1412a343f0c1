"""matplotlib's font list, which takes seconds to make: made once, in the sandbox, and given to every later session."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import tempfile
from pathlib import Path

import msgspec

from clicket.interpreter.sandbox.bubblewrap import HOME
from clicket.interpreter.session.capture import Captured
from clicket.interpreter.session.session import BlockEnd, Session

__all__ = ["cache_folder", "save_font_list"]

logger = logging.getLogger("clicket.interpreter")
_NAME = re.compile(r"fontlist-v[\w.\-]{1,20}\.json")
_TIMEOUT = 30.0
_MAX_SIZE = 8 * 1024 * 1024
# One statement that binds no name: the session may be used for a task later.
_SHOW = (
    'assert [print(p.name, p.read_text("utf-8"), sep="\\n") for p in sorted('
    '__import__("pathlib").Path(__import__("matplotlib").get_cachedir()).glob("fontlist-*.json"),'
    "key=lambda p: p.stat().st_mtime)[-1:]]"
)


def cache_folder(python: str | None) -> Path | None:
    """The folder for the font list of this Python, readable for all users; None if it cannot be made."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "clicket" / "matplotlib"
        folder = base / hashlib.sha256((python or sys.executable).encode()).hexdigest()[:16]
        if folder.is_relative_to(HOME):  # hidden in the sandbox, where the program has its own folder
            return None
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        logger.info("matplotlib's font list is not cached, and every session makes its own: %s", error)
        return None
    return folder


async def save_font_list(session: Session, folder: Path) -> None:
    """Save the list of a session that has loaded matplotlib. Without it the next session makes its own."""
    session.begin(_SHOW, name="<fonts>", timeout=_TIMEOUT)
    async for item in session.watch():
        if isinstance(item, BlockEnd) and item.status == "ok":
            name, _, text = _whole(item.stdout).partition("\n")
            _save(folder, name, text)


def _whole(output: Captured) -> str:
    """All of the output: a list of many fonts is longer than what a capture keeps in memory."""
    if not output.cut or output.spool is None:
        return "" if output.cut else output.text
    try:
        complete = output.size == output.spool.size <= _MAX_SIZE
        return b"".join(output.spool.pieces()).decode("utf-8", "replace") if complete else ""
    finally:
        output.spool.close()


def _save(folder: Path, name: str, text: str) -> None:
    if not _NAME.fullmatch(name):
        return
    try:
        msgspec.json.decode(text)
        file, path = tempfile.mkstemp(prefix=".new-", dir=folder)
        with os.fdopen(file, "w", encoding="utf-8") as written:
            os.fchmod(file, 0o644)
            written.write(text)
        os.replace(path, folder / name)
        for old in folder.glob("fontlist-*.json"):  # of another version of matplotlib
            if old.name != name:
                old.unlink(missing_ok=True)
    except (msgspec.DecodeError, OSError) as error:
        logger.info("matplotlib's font list could not be saved: %s", error)
