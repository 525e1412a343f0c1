"""Rich representations of objects, sent as display frames while the block runs, each and all together limited in size. If one
fails, a note is displayed instead."""

from __future__ import annotations

import binascii
import builtins

from clicket.interpreter.inside.bounded_repr import text_of
from clicket.interpreter.inside.figures import Figures
from clicket.interpreter.inside.safe_builtins import BUILTINS, clean, cut
from clicket.interpreter.inside.safe_repr import PLAIN_TYPES, name_of
from clicket.interpreter.sandbox.frames import encode

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Displays"]

globals()["__builtins__"] = BUILTINS

MAX_FORM = 8 * 1024 * 1024
MAX_BLOCK = 24 * 1024 * 1024
MAX_FRAMES = 1000
_TEXT = "text/plain"
_FORMS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
}
_base64 = binascii.b2a_base64


class Displays:
    def __init__(self, send: Callable[[dict[str, Any]], None], flush: Callable[[], None]) -> None:
        self._send = send
        self._flush = flush
        self._block = 0
        self._group = 0
        self._frames = 0
        self._bytes = 0
        self._muted = False
        self.figures = Figures(self._show_forms)

    def begin(self, block: int) -> None:
        self._block = block
        self._group = 0
        self._frames = 0
        self._bytes = 0
        self.figures.begin()

    def mute(self) -> None:
        """In a forked child: send nothing."""
        self._muted = True

    def patch_ipython(self, module: Any) -> None:
        """Programs written for notebooks import `display` from IPython: replace it by ours."""
        module.display = self.show

    def show(self, *objects: Any) -> None:
        """Display objects with all their representations."""
        for value in objects:
            if self.figures.is_figure(value):
                self.figures.show_one(value)
                continue
            forms = self._forms(value)
            forms.setdefault(_TEXT, text_of(value))
            self._show_forms(forms)

    def finish(self, value: Any) -> str | None:
        """At the end of a block: display open figures, and the last value if it has rich representations. Returns its text."""
        text = None
        if value is not None:
            vars(builtins)["_"] = value
            text = text_of(value)
            if self.figures.is_figure(value):
                self.figures.show_one(value)
            elif forms := self._forms(value):
                self._show_forms({**forms, _TEXT: text})
        self.figures.finish()
        return text

    def _forms(self, value: Any) -> dict[str, Any]:
        kind = type(value)
        if issubclass(kind, type) or (type(kind) is type and kind in PLAIN_TYPES):
            return {}
        forms: dict[str, Any] = {}
        bundle = self._ask(value, "_repr_mimebundle_")
        if type(bundle) is tuple and bundle:
            bundle = bundle[0]
        if type(bundle) is dict:
            forms.update((mime, data) for mime, data in bundle.items() if type(mime) is str and data is not None)
        for method, mime in _FORMS.items():
            if mime not in forms and (data := self._ask(value, method)) is not None:
                forms[mime] = data
        if not forms and name_of(kind) == "Series" and hasattr(kind, "to_frame"):
            data = self._ask(self._ask(value, "to_frame"), "_repr_html_")
            forms.update({"text/html": data} if data is not None else {})
        return forms

    def _ask(self, value: Any, method: str) -> Any:
        """Call a method of the object, looked up on its class: instances may pretend to have any attribute."""
        try:
            call = getattr(type(value), method, None)
            data = call(value) if call is not None else None
        except Exception as error:
            self._note(f"{method} of {name_of(type(value))} failed: {name_of(type(error))}: {_words(error)}")
            return None
        return data[0] if type(data) is tuple and data and method != "_repr_mimebundle_" else data

    def _show_forms(self, forms: dict[str, Any]) -> None:
        self._group += 1
        for mime, data in forms.items():
            text = _as_text(mime, data)
            if text is None:
                self._note(f"{mime} was left out: it is {name_of(type(data))}, not text or bytes")
            elif len(text) > MAX_FORM:
                self._note(f"{mime} was left out: {len(text)} characters are more than {MAX_FORM}")
            else:
                self._put(mime, text)

    def _put(self, mime: str, data: str) -> None:
        if self._muted or self._frames > MAX_FRAMES:
            return
        self._frames += 1
        data = clean(data)
        # Escapes make a frame several times as long; one rare character does the same to text in the host's memory.
        size = max(len(encode({"": data})), str.__sizeof__(data))
        if self._frames > MAX_FRAMES or self._bytes + size > MAX_BLOCK:
            self._frames = MAX_FRAMES + 1
            mime = _TEXT
            data = "(this block displays more than the limit; the rest was left out)"
        self._bytes += size
        frame = {"type": "display", "id": self._block, "group": self._group, "mime": clean(mime)[:100], "data": data}
        self._flush()  # earlier output must arrive before the display
        self._send(frame)

    def _note(self, text: str) -> None:
        self._put(_TEXT, f"({cut(text, 500)})")


def _as_text(mime: str, data: Any) -> str | None:
    """Pictures as base64, JSON as text."""
    if issubclass(type(data), str):
        return str.__str__(data)
    if issubclass(type(data), bytes):
        return _base64(data, newline=False).decode("ascii")
    if mime == "application/json" or mime.endswith("+json"):
        try:
            return encode(data).decode("utf-8")
        except (ValueError, TypeError, RecursionError):
            return None
    return None


def _words(error: BaseException) -> str:
    try:
        return str.__str__(str(error))
    except Exception:
        return "(no text)"
