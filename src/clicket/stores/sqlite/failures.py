"""Failures of a SQLite file, with advice."""

from __future__ import annotations

from pathlib import Path

import apsw

from clicket.errors import StoreUnavailable

__all__ = ["replaced", "unavailable"]


def unavailable(path: Path, error: apsw.Error) -> StoreUnavailable:
    """An error of SQLite with advice."""
    advice = {
        apsw.FullError: "The disk is full: free some space; clicket goes on by itself.",
        apsw.BusyError: "Another process holds the file: end it or try again.",
        apsw.ReadOnlyError: "The file or its folder cannot be written: check its permissions.",
        apsw.CantOpenError: "The file cannot be opened: check that its folder exists and may be written.",
        apsw.CorruptError: "The file is damaged: stop, and restore it from a backup. Nothing was overwritten.",
        apsw.NotADBError: "The file is damaged: stop, and restore it from a backup. Nothing was overwritten.",
    }.get(type(error), "Look at the disk and the system log.")
    text = f"{path}: {str(error) or type(error).__name__}. {advice}"
    transient, lasting = isinstance(error, apsw.BusyError), isinstance(error, apsw.FullError)
    return StoreUnavailable(text, transient=transient, lasting=lasting, path=str(path), sqlite=type(error).__name__)


def replaced(path: Path) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} was removed or replaced while it was open. What is written now would be lost, so nothing is: close this "
        "runtime, and put the file back or start with the new one.",
        path=str(path),
    )
