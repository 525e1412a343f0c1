"""Plain Python's side of the notebook tasks: `python -I notebook_plain.py < sessions.json > results.json`.

Each session is a fresh `__main__` in its own process, forked after the heavy imports, without clicket.
A block is a real file; its last expression is evaluated separately, which is all that a notebook adds to Python.
"""

import ast
import hashlib
import io
import json
import os
import sys
import traceback
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def main() -> None:
    order = json.load(sys.stdin)
    scratch = Path(order["scratch"])
    for name in order["preload"]:
        __import__(name)
    for number, session in enumerate(order["sessions"]):
        child = os.fork()
        if child == 0:
            try:
                results = Plain(scratch / str(number)).run(session["folder"], session["runs"])
                (scratch / f"{number}.json").write_text(json.dumps(results))
                os._exit(0)
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
                os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit(f"session {number} failed, see above")
    print(json.dumps([json.loads((scratch / f"{n}.json").read_text()) for n in range(len(order["sessions"]))]))


class Plain:
    def __init__(self, scratch: Path) -> None:
        scratch.mkdir()
        self.scratch = scratch
        self.main = sys.modules["__main__"] = types.ModuleType("__main__")
        self.blocks = 0
        sys.argv = [""]

    def run(self, folder: str, runs: list[list[str]]) -> list[dict[str, Any]]:
        os.chdir(folder)
        results = []
        for codes in runs:
            before = files()
            blocks: list[dict[str, Any]] = []
            for code in codes:
                blocks.append(self.block(code))
                if blocks[-1]["exit_code"] is not None:
                    break
            changed = {name: what for name, what in files().items() if before.get(name) != what}
            results.append({"blocks": blocks, "files": changed})
        return results

    def block(self, code: str) -> dict[str, Any]:
        self.blocks += 1
        path = self.scratch / f"block{self.blocks}.py"
        path.write_text(code, encoding="utf-8")
        value = error = exit_code = None
        with redirected(1, path.with_suffix(".out")), redirected(2, path.with_suffix(".err")):
            try:
                value = self.evaluate(code, str(path))
            except SystemExit as leaving:
                exit_code = leaving.code
            except BaseException as raised:
                lines = [f.lineno for f in traceback.extract_tb(raised.__traceback__) if f.filename == str(path)]
                error = {"type": type(raised).__name__, "message": str(raised), "line": lines[-1] if lines else None}
        return {
            "stdout": path.with_suffix(".out").read_text(encoding="utf-8"),
            "stderr": path.with_suffix(".err").read_text(encoding="utf-8"),
            "value": value,
            "error": error,
            "exit_code": exit_code,
            "figures": figures(),
        }

    def evaluate(self, code: str, path: str) -> str | None:
        tree = ast.parse(code, path)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        names = vars(self.main)
        exec(compile(tree, path, "exec"), names)
        value = eval(compile(ast.Expression(last.value), path, "eval"), names) if isinstance(last, ast.Expr) else None
        return None if value is None else repr(value)


@contextmanager
def redirected(fd: int, path: Path) -> Iterator[None]:
    """Child programs write there too; nothing is buffered, so that all output keeps its order."""
    name = {1: "stdout", 2: "stderr"}[fd]
    kept, old = os.dup(fd), getattr(sys, name)
    with path.open("wb", 0) as file:
        os.dup2(file.fileno(), fd)
    setattr(sys, name, io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), "utf-8", write_through=True))
    try:
        yield
    finally:
        setattr(sys, name, old)
        os.dup2(kept, fd)
        os.close(kept)


def files() -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted(Path().rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found[str(path)] = {"sha256": hashlib.sha256(content).hexdigest(), "pixels": pixels(content)}
    return found


def pixels(content: bytes) -> list[int] | None:
    """Width and height of a PNG."""
    return [int.from_bytes(content[i : i + 4]) for i in (16, 20)] if content.startswith(b"\x89PNG") else None


def figures() -> list[list[int] | None]:
    """The size in pixels of every open figure. A notebook shows it without margins, and closes it after a block."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    sizes = []
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png", bbox_inches="tight")
        sizes.append(pixels(picture.getvalue()))
    pyplot.close("all")
    return sizes


if __name__ == "__main__":
    main()
