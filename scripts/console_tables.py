"""Writes web/src/model/tables.ts: the state tables of the kernel, for the console's diagrams. `--check` only compares.

    python scripts/console_tables.py [--check]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from clicket.kernel import AGENT, CALL, CODE, SEARCH, Table

TARGET = Path(__file__).resolve().parents[1] / "web" / "src" / "model" / "tables.ts"
_HEAD = """// Written by scripts/console_tables.py from the kernel's tables: change those, then run `make console`.
import type { State } from "../api/types";

/** From each state to the states that may follow it. */
export type Table = { readonly [from: string]: readonly string[] };

"""
_TAIL = """
export const TERMINAL: ReadonlySet<State> = new Set<State>(%s);

export const isTerminal = (state: State): boolean => TERMINAL.has(state);
"""


def _edges(table: Table) -> str:
    states = list(table.states)
    rows = {str(state): [str(other) for other in states if other in table.edges.get(state, ())] for state in states}
    lines = [f"  {name}: {json.dumps(targets)}," for name, targets in rows.items()]
    return "{\n" + "\n".join(lines) + "\n}"


def text() -> str:
    """The whole file."""
    tables = {"CALL": CALL, "CODE": CODE, "SEARCH": SEARCH, "AGENT": AGENT}
    made = "\n\n".join(f"export const {name}: Table = {_edges(table)};" for name, table in tables.items())
    terminal = json.dumps([str(state) for state in CALL.states if state in CALL.terminal])
    return _HEAD + made + "\n" + _TAIL % terminal


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if TARGET.read_text() == text() else f"{TARGET} is not what the kernel says; run make console")
    TARGET.write_text(text())
