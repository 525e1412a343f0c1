"""Names that a program's files may not have on the host: Python would run such a file, or clicket would obey it."""

from __future__ import annotations

import os
import sys
from importlib.machinery import all_suffixes
from importlib.util import find_spec
from pathlib import Path, PurePosixPath

from clicket.settings import FILE_NAME

__all__ = ["name_objection"]

_OPTIONAL = frozenset(
    "anthropic anyio apsw cryptography docstring_parser httpcore2 httptools httpx2 jsonschema_rs langchain_core "
    "markdown_it matplotlib mcp mcp_types msgspec numpy onnxruntime openai opentelemetry pandas prometheus_client psycopg "
    "pydantic pydantic_ai pydantic_core pypdf redis rich sitecustomize starlette tantivy tokenizers typer usercustomize "
    "uvicorn uvloop".split()
)
"""What clicket imports, installed or not, and what Python itself imports when it starts."""

_IMPORT_FOLDERS = (".dist-info", ".egg-info", ".egg")
"""Python takes entry points from such a folder, and with them the names of modules to import."""


def name_objection(name: str, out: Path) -> str:
    """Why a program's file of this name is not saved in the folder `out`; empty when nothing would run or obey it."""
    parts = PurePosixPath(name).parts
    if any(part.startswith(".") for part in parts):
        return "is hidden: programs read their settings from hidden files"
    if parts[-1] == FILE_NAME or _is_settings_file(out / name):
        return "would be read as settings"
    if parts[-1].endswith((".pth", ".pyc")) or any(part.endswith(_IMPORT_FOLDERS) for part in parts):
        return "would be read by Python's import system"
    if parts[-1].endswith(tuple(all_suffixes())) and _would_be_imported(parts[0].partition(".")[0], out / name, out):
        return "would be imported from there; --out with a folder of its own and another name keeps it"
    return ""


def _is_settings_file(path: Path) -> bool:
    named = os.environ.get("CLICKET_CONFIG")
    return named is not None and path.resolve() == Path(named).resolve()


def _would_be_imported(module: str, path: Path, out: Path) -> bool:
    """A module that some program looks for by this name, or any module in a folder where modules are looked for."""
    if module in _OPTIONAL or module in sys.stdlib_module_names or (out / "__init__.py").exists():
        return True
    roots = {Path(entry or ".").resolve() for entry in (os.getcwd(), *sys.path) if isinstance(entry, str)}
    return any(out.resolve() == root or _between(out, root, path) for root in roots) or _is_installed(module)


def _between(out: Path, root: Path, path: Path) -> bool:
    """Is the folder of modules inside of `out`, and the file inside of that?"""
    return root.is_relative_to(out.resolve()) and path.resolve().is_relative_to(root)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):  # a module without a spec is there, too
        return True
