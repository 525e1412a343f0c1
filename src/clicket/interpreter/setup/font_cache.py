"""matplotlib's list of fonts, which takes it seconds to make: made once, in a cage, and given to every session from then on."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import sys
import tempfile
from pathlib import Path

import msgspec

from clicket.interpreter.session.capture import Captured
from clicket.interpreter.session.session import BlockEnd, Session
from clicket.sandbox.bubblewrap import HOME

__all__ = ["fetch", "shelf"]

logger = logging.getLogger("clicket.interpreter")
_NAME = re.compile(r"fontlist-v[\w.\-]{1,20}\.json")
_TIMEOUT = 30.0
_MOST = 8 * 1024 * 1024
# One statement that binds no name: the session that is asked may be somebody's later.
_SHOW = (
    'assert [print(p.name, p.read_text("utf-8"), sep="\\n") for p in sorted('
    '__import__("pathlib").Path(__import__("matplotlib").get_cachedir()).glob("fontlist-*.json"),'
    "key=lambda p: p.stat().st_mtime)[-1:]]"
)


def shelf(python: str | None) -> Path | None:
    """The folder for the list that this Python makes, readable for all. None: there is no place for one."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "clicket" / "matplotlib"
        folder = base / hashlib.sha256((python or sys.executable).encode()).hexdigest()[:16]
        if folder.is_relative_to(HOME):  # there, a cage has a folder of its own
            return None
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        logger.info("matplotlib's fonts are listed in every session anew: %s", error)
        return None
    return folder


async def fetch(session: Session, folder: Path) -> None:
    """Take the list from a session that has matplotlib loaded. No list is no harm: the next session makes its own."""
    session.begin(_SHOW, name="<fonts>", timeout=_TIMEOUT)
    async for item in session.watch():
        if isinstance(item, BlockEnd) and item.status == "ok":
            name, _, text = _whole(item.stdout).partition("\n")
            _keep(folder, name, text)


def _whole(said: Captured) -> str:
    """All of it: where many fonts are installed, their list is longer than what is kept of output for its readers."""
    if not said.cut or said.spool is None:
        return "" if said.cut else said.text
    try:
        complete = said.size == said.spool.size <= _MOST
        return b"".join(said.spool.pieces()).decode("utf-8", "replace") if complete else ""
    finally:
        said.spool.close()


def _keep(folder: Path, name: str, text: str) -> None:
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
        logger.info("matplotlib's list of fonts could not be kept: %s", error)
