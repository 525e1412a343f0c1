"""File names that a program may not use on the host: Python would import the file, or clicket would read it as settings."""

from __future__ import annotations

import os
import sys
from importlib.machinery import all_suffixes
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from clicket.runtime.settings import FILE_NAME

__all__ = ["name_objection"]

_OPTIONAL = frozenset(
    "agents anthropic anyio apsw cryptography docstring_parser fastembed httpcore2 httptools httpx2 jsonschema_rs jwt langchain_core "
    "chardet markdown_it matplotlib mcp mcp_types msgspec numpy openai opentelemetry pandas prometheus_client psycopg "
    "pydantic pydantic_ai pydantic_core pypdf redis rich sentence_transformers sitecustomize starlette typer "
    "typing_extensions usercustomize uvicorn uvloop yaml dbos nats ray temporalio".split()
)
"""Modules that clicket imports, installed or not, and those that Python imports when it starts."""

_IMPORT_FOLDERS = (".dist-info", ".egg-info", ".egg")
"""Python reads entry points from these folders, and imports the modules that they name."""


def name_objection(name: str, out: Path) -> str:
    """Why a program's file of this name is not saved in the folder `out`; empty if it may be saved."""
    parts = PurePosixPath(name).parts
    if any(part.startswith(".") for part in parts):
        return "is hidden: programs read settings from hidden files"
    if parts[-1] == FILE_NAME or _is_settings_file(out / name):
        return "would be read as settings"
    if parts[-1].endswith((".pth", ".pyc")) or any(part.endswith(_IMPORT_FOLDERS) for part in parts):
        return "would be read by Python's import system"
    if parts[-1].endswith(tuple(all_suffixes())) and _would_be_imported(parts[0].partition(".")[0], out / name, out):
        return "would be imported from there; use another name, or --out with an empty folder"
    return ""


def _is_settings_file(path: Path) -> bool:
    named = os.environ.get("CLICKET_CONFIG")
    return named is not None and path.resolve() == Path(named).resolve()


def _would_be_imported(module: str, path: Path, out: Path) -> bool:
    """Is it a module that programs import by this name, or any module in a folder of the import path?"""
    if module in _OPTIONAL or module in sys.stdlib_module_names or (out / "__init__.py").exists():
        return True
    roots = {Path(entry or ".").resolve() for entry in (os.getcwd(), *sys.path) if isinstance(entry, str)}
    return any(out.resolve() == root or _between(out, root, path) for root in roots) or _is_installed(module)


def _between(out: Path, root: Path, path: Path) -> bool:
    """Is the folder `root` of the import path inside of `out`, and the file inside of `root`?"""
    return root.is_relative_to(out.resolve()) and path.resolve().is_relative_to(root)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a module without a spec is installed, too
        return True
