"""Runs as one self-contained HTML file. All content is untrusted: escaped, or in a sandboxed frame.

The page has no script, and its policy allows none. Pictures are images, never markup. HTML of a program is in a frame without any
rights: no script, no form, no link out of it, no requests.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator
from html import escape

import msgspec
from markdown_it import MarkdownIt

from clicket.interpreter.export.cells import Cell, Output, Prose, Shown, Stream, cells
from clicket.interpreter.export.style import FRAME_STYLE, POLICY, STYLE
from clicket.interpreter.result import ProgramError, Result

__all__ = ["to_html"]

_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
_PICTURES = ("image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp")
_MAX_SVG = 1_000_000
_MAX_PROSE = 30_000
_MAX_CODE = 100_000
"""Characters that are rendered or highlighted; longer text is only escaped, which bounds the time."""
_ROW, _MIN_ROWS, _MAX_ROWS = 27, 3, 18
_TOKEN = re.compile(
    r"""(?P<c>\#[^\n]*)|(?P<s>[rbfuRBFU]{0,2}(?:\"\"\"[^\\]*?\"\"\"|'''[^\\]*?'''|"(?>(?:\\.|[^"\\\n]){0,500})"|'(?>(?:\\.|[^'\\\n]){0,500})'))"""
    r"""|(?P<k>\b(?:False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from"""
    r"""|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b)|(?P<n>\b\d[\w.]*)"""
)


def to_html(results: Result | Iterable[Result], *, title: str = "Notebook") -> str:
    """One run or several, as in `interpreter.history`, to be read in a browser."""
    runs = [results] if isinstance(results, Result) else list(results)
    count = 0
    body: list[str] = []
    for run in runs:
        for cell in cells(run):
            if isinstance(cell, Prose):
                body.append(f'<section class="prose">{_prose(cell.text)}</section>')
            else:
                count += 1
                body.append(_cell(cell, count))
        body.append(_end(run))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def _cell(cell: Cell, count: int) -> str:
    block = cell.block
    took = f"{block.duration:.2f} s" if block.duration >= 0.01 else f"{block.duration * 1000:.1f} ms"
    status = "" if block.status == "ok" else f' · <b class="bad">{_text(block.status)}</b>'
    outputs = "".join(_output(output) for output in cell.outputs)
    return (
        f'<section class="cell"><div class="label">[{count}] <span>{took}{status}</span></div>'
        f'<pre class="code"><code>{_coloured(block.code)}</code></pre>{outputs}</section>'
    )


def _output(output: Output) -> str:
    if isinstance(output, Stream):
        return f'<pre class="{output.name}">{_text(output.text)}</pre>'
    if isinstance(output, ProgramError):
        words = output.traceback or f"{output.type}: {output.message}"
        return f'<pre class="error">{_text(words)}</pre>'
    kind = "value" if output.is_value else "shown"
    return f'<div class="{kind}">{_form(output)}</div>'


def _form(shown: Shown) -> str:
    """The best representation that can be shown safely; text if there is no other."""
    for mime in _PICTURES:
        if mime in shown.forms and (picture := _picture(mime, shown.forms)):
            return picture
    forms = shown.forms
    if "text/html" in forms:
        return _frame(forms["text/html"])
    if "text/markdown" in forms:
        return f'<div class="prose">{_prose(forms["text/markdown"])}</div>'
    if "application/json" in forms:
        return f"<pre>{_text(_pretty(forms['application/json']))}</pre>"
    text = forms.get("text/plain")
    if text is None:
        mime, data = next(iter(forms.items()))
        text = data if mime.startswith("text/") else f"({mime}, {len(data):,} characters)"
    return f"<pre>{_text(text)}</pre>"


def _picture(mime: str, forms: dict[str, str]) -> str | None:
    """An image with a data URL. An SVG as an image runs no script and makes no requests."""
    if mime == "image/svg+xml":
        drawing = forms[mime].encode("utf-8", "replace")
        if len(drawing) > _MAX_SVG and "image/png" in forms:
            return None
        data = base64.b64encode(drawing).decode()
    else:
        try:
            data = base64.b64encode(base64.b64decode("".join(forms[mime].split()), validate=True)).decode()
        except (binascii.Error, ValueError):
            return None
    described = _text(forms.get("text/plain", "figure")[:200])
    return f'<img alt="{described}" src="data:{mime};base64,{data}">'


def _frame(html: str) -> str:
    """HTML of the program in a sandboxed frame. Its height is estimated from its rows, because scripts cannot measure it."""
    rows = max(_MIN_ROWS, min(len(re.findall(r"<(?:tr|p|li|br|h\d|div)\b", html, re.IGNORECASE)) + 1, _MAX_ROWS))
    inner = (
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<style>{FRAME_STYLE}</style>{_whole(html)}"
    )
    return (
        f'<iframe sandbox="" loading="lazy" referrerpolicy="no-referrer" title="output" height="{rows * _ROW}" '
        f'srcdoc="{escape(inner)}"></iframe>'
    )


def _end(run: Result) -> str:
    facts = [f'<b class="{"good" if run.ok else "bad"}">{_text(run.status)}</b>']
    if run.reason:
        facts.append(_text(run.reason))
    count = len(run.blocks)
    facts += [f"{count} block{'' if count == 1 else 's'}", f"{run.duration:.2f} s"]
    facts.append(f"isolation {_text(run.isolation.level)}")
    lines = [*_remarks(run)]
    remarks = f"<ul>{''.join(f'<li>{_text(line)}</li>' for line in lines)}</ul>" if lines else ""
    return f"<footer>{' · '.join(facts)}{remarks}</footer>"


def _remarks(run: Result) -> Iterator[str]:
    if run.error is not None and not any(block.error is not None for block in run.blocks):
        yield f"{run.error.type}: {run.error.message}"
    for file in run.files:
        yield f"file {file.name}, {file.size:,} bytes"
    for skipped in run.skipped:
        yield f"left out: {skipped.what}, {skipped.why}"
    yield from run.warnings


def _prose(text: str) -> str:
    """Markdown without raw HTML and images; links send no referrer."""
    if len(text) > _MAX_PROSE:
        return f"<pre>{_text(text)}</pre>"
    html: str = _MARKDOWN.render(_whole(text))
    return html.replace("<a href=", '<a rel="noopener noreferrer nofollow" href=')


def _coloured(code: str) -> str:
    if len(code) > _MAX_CODE:
        return _text(code)
    code = _whole(code)
    parts: list[str] = []
    at = 0
    for match in _TOKEN.finditer(code):
        parts.append(escape(code[at : match.start()]))
        parts.append(f'<i class="{match.lastgroup}">{escape(match[0])}</i>')
        at = match.end()
    return "".join(parts) + escape(code[at:].rstrip("\n"))


def _pretty(data: str) -> str:
    try:
        return msgspec.json.format(_whole(data), indent=2)
    except (msgspec.DecodeError, RecursionError):
        return data


def _text(text: str) -> str:
    return escape(_whole(text))


def _whole(text: str) -> str:
    """Without lone surrogates, control characters and bidirectional overrides."""
    text = text.encode("utf-8", "backslashreplace").decode()
    return re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "\N{REPLACEMENT CHARACTER}", text)
