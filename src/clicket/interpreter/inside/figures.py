"""matplotlib figures: displayed once as PNG and SVG, by `plt.show()` or at the end of the block, then closed. matplotlib is never
imported from here."""

from __future__ import annotations

import io
import os
import sys

from clicket.interpreter.inside.safe_builtins import BUILTINS, cut
from clicket.interpreter.inside.safe_repr import name_of

TYPE_CHECKING = False  # type checkers treat this name as true
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Figures"]

globals()["__builtins__"] = BUILTINS

MAX_PICTURE = 6 * 1024 * 1024
"""Bytes; a third more in base64."""
_FORMS = {"image/png": "png", "image/svg+xml": "svg"}
_MAX_WARNINGS = 20
_QUIET = "FigureCanvasAgg is non-interactive"

_BytesIO = io.BytesIO


class Figures:
    def __init__(self, show: Callable[[dict[str, Any]], None]) -> None:
        self._show = show
        self._shown: list[Any] = []
        self._pyplot: Any = None
        os.environ.setdefault("MPLBACKEND", "Agg")

    def begin(self) -> None:
        self._shown = []

    def patch_pyplot(self, pyplot: Any) -> None:
        """Called when pyplot was imported: replace its `show`, and silence its warning that there is no window."""
        self._pyplot = pyplot

        def show(
            *arguments: Any, **options: Any
        ) -> None:  # matplotlib sets attributes on it: a method would refuse them
            """Show every open figure."""
            self._show_all()

        pyplot.show = show
        import warnings

        warnings.filterwarnings("ignore", message=_QUIET)

    def is_figure(self, value: Any) -> bool:
        module = sys.modules.get("matplotlib.figure")
        kind = vars(module).get("Figure") if module is not None else None
        return kind is not None and issubclass(type(value), kind)

    def show_one(self, figure: Any) -> None:
        """Show it now; at the end of the block it is not shown again."""
        self._draw(figure)
        self._shown.append(figure)

    def finish(self) -> None:
        """At the end of a block, also after an error."""
        if self._pyplot is None:
            return
        self._show_all()
        self._shown = []

    def _show_all(self) -> None:
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        managers = helpers.Gcf.get_all_fig_managers() if helpers is not None else []
        try:
            for manager in managers:
                figure = manager.canvas.figure
                if not any(figure is shown for shown in self._shown):
                    self._draw(figure)
        finally:
            if managers:
                self._pyplot.close("all")

    def _draw(self, figure: Any) -> None:
        if not figure.axes and not figure.lines and not figure.texts and not figure.images:
            return  # nothing was drawn on it
        forms: dict[str, Any] = {}
        warned: dict[str, None] = {}
        for mime, form in _FORMS.items():
            target = _Bounded()
            try:
                _save(figure, target, form, warned)
            except Exception as error:
                forms["text/plain"] = f"(the figure has no {form}: {_reason(error)})"
            else:
                data = target.getvalue()
                forms[mime] = data if form == "png" else data.decode("utf-8", "replace")
        for text in warned:
            sys.stderr.write(f"{text}\n")
        self._show(forms)


def _save(figure: Any, target: io.BytesIO, form: str, warned: dict[str, None]) -> None:
    """Draw it. A warning, of a letter that the font does not have, say, is noted without the line that gave it: that is ours."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        figure.savefig(target, format=form, bbox_inches="tight")
    for each in caught[:_MAX_WARNINGS]:
        warned[cut(f"{name_of(each.category)}: {each.message}", 500)] = None


class _Bounded(_BytesIO):
    """Stops a picture that becomes too large while it is drawn."""

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > MAX_PICTURE:
            raise ValueError(f"it is larger than {MAX_PICTURE} bytes")
        return super().write(data)


def _reason(error: BaseException) -> str:
    return cut(f"{name_of(type(error))}: {error}", 300)
