"""Plain Python's side of the notebook tasks: `python -I notebook_plain.py < sessions.json > results.json`.

Each session is a fresh `__main__` in a process of its own, forked after the heavy imports, and nothing of clicket is in it.
A block is a real file; its last expression is evaluated apart, which is all that a notebook adds to Python.
"""

import ast
import hashlib
import io
import json
import os
import sys
import traceback
import types
from pathlib import Path


def main() -> None:
    order = json.load(sys.stdin)
    for name in order["preload"]:
        __import__(name)
    answers = sys.stdout.fileno()
    for number, session in enumerate(order["sessions"]):
        out = Path(order["scratch"], f"{number}.json")
        child = os.fork()
        if child == 0:
            try:
                out.write_text(json.dumps(Plain(Path(order["scratch"], str(number)), session["folder"]).run(session["runs"])))
                os._exit(0)
            except BaseException:
                traceback.print_exc(file=sys.__stderr__)
                os._exit(1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise SystemExit(f"session {number} failed, see above")
    results = [json.loads(Path(order["scratch"], f"{n}.json").read_text()) for n in range(len(order["sessions"]))]
    os.write(answers, json.dumps(results).encode())


class Plain:
    def __init__(self, scratch, folder):
        self.scratch, self.folder = scratch, folder
        scratch.mkdir()
        self.streams = [open(scratch / name, "w+b", 0) for name in ("stdout", "stderr")]
        self.main = sys.modules["__main__"] = types.ModuleType("__main__")
        self.blocks = 0

    def run(self, runs):
        os.chdir(self.folder)
        sys.argv = [""]
        results = []
        for blocks in runs:
            before = self.files()
            done = []
            for code in blocks:
                done.append(self.block(code))
                if done[-1]["exit_code"] is not None:
                    break
            after = self.files()
            changed = {name: what for name, what in after.items() if before.get(name) != what}
            results.append({"blocks": done, "files": changed})
        return results

    def block(self, code):
        self.blocks += 1
        path = self.scratch / f"block{self.blocks}.py"
        path.write_text(code, encoding="utf-8")
        value = error = exit_code = None
        kept = [os.dup(fd) for fd in (1, 2)]
        starts = [stream.seek(0, os.SEEK_END) for stream in self.streams]
        for fd, stream in zip((1, 2), self.streams):
            os.dup2(stream.fileno(), fd)
        # Lines are written when they are complete, as in a terminal: print and subprocesses keep their order.
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(fd, "w", closefd=False), "utf-8", write_through=True) for fd in (1, 2))
        try:
            value = self.evaluate(code, str(path))
        except SystemExit as leaving:
            exit_code = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        except BaseException as raised:
            lines = [f.lineno for f in traceback.extract_tb(raised.__traceback__) if f.filename == str(path)]
            error = {"type": type(raised).__name__, "message": str(raised), "line": lines[-1] if lines else None}
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, old in zip((1, 2), kept):
            os.dup2(old, fd)
            os.close(old)
        texts = []
        for stream, start in zip(self.streams, starts):
            stream.seek(start)
            texts.append(stream.read().decode())
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        return {"stdout": texts[0], "stderr": texts[1], "value": value, "error": error, "exit_code": exit_code, "figures": figures()}

    def evaluate(self, code, path):
        tree = ast.parse(code, path)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        names = vars(self.main)
        exec(compile(tree, path, "exec"), names)
        value = eval(compile(ast.Expression(last.value), path, "eval"), names) if last else None
        return None if value is None else repr(value)

    def files(self):
        found = {}
        for path in sorted(Path().rglob("*")):
            if path.is_file():
                content = path.read_bytes()
                found[str(path)] = {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "pixels": pixels(content)}
        return found


def pixels(content):
    """Width and height of a PNG."""
    return [int.from_bytes(content[i : i + 4]) for i in (16, 20)] if content.startswith(b"\x89PNG") else None


def figures():
    """The size in pixels of every figure that is open, which a notebook shows and closes at the end of a block."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None:
        return []
    sizes = []
    for number in pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(number).savefig(picture, format="png")
        sizes.append(pixels(picture.getvalue()))
    pyplot.close("all")
    return sizes


if __name__ == "__main__":
    main()
