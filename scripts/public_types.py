"""Checks with pyright that the public API is completely typed, and fails if any public name is not.

Pyright counts every module without an underscore as public. Public here is what the public modules of the package list in
`__all__`, with the members of the classes among it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FACES = (
    "clicket",
    "clicket.sync",
    "clicket.testing",
    "clicket.interpreter",
    "clicket.sandbox",
    "clicket.search",
    "clicket.search.report",
    "clicket.web",
    "clicket.models",
    "clicket.agents",
)


def public_names() -> set[str]:
    """Full names, as pyright spells them: where each thing is defined, and which public module lists it."""
    names: set[str] = set()
    for face in FACES:
        module = importlib.import_module(face)
        for name in module.__all__:
            thing = getattr(module, name)
            names.add(f"{face}.{name}")
            if getattr(thing, "__module__", "").startswith("clicket"):
                names.add(f"{thing.__module__}.{getattr(thing, '__qualname__', name)}")
    return names


def symbols() -> list[dict[str, Any]]:
    """Everything that pyright counts as exported by the package."""
    # Here --verifytypes finds the package through the `python` on the PATH, and from outside the checkout.
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "pyright", "--outputjson", "--ignoreexternal", "--verifytypes", "clicket"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    try:
        found: list[dict[str, Any]] = json.loads(done.stdout)["typeCompleteness"]["symbols"]
    except (ValueError, KeyError):
        sys.exit(f"pyright gave no answer:\n{done.stdout}{done.stderr}")
    return found


def main() -> int:
    public = public_names()
    complaints: list[str] = []
    seen = 0
    for symbol in symbols():
        name: str = symbol["name"]
        parents = name.split(".")
        owned = any(".".join(parents[:length]) in public for length in range(2, len(parents) + 1))
        private = any(part.startswith("_") and not part.endswith("__") for part in parents)
        if not owned or private:
            continue
        seen += 1
        if not symbol["isTypeKnown"] or symbol["isTypeAmbiguous"]:
            reasons = "; ".join(d["message"].splitlines()[0] for d in symbol.get("diagnostics", []))
            complaints.append(f"{name}: {reasons or 'the type is not declared'}")
    for complaint in sorted(complaints):
        print(complaint)
    print(f"public API: {seen} symbols, {len(complaints)} without a whole type")
    return 1 if complaints or seen < len(public) // 2 else 0


if __name__ == "__main__":
    sys.exit(main())
