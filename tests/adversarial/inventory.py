"""Exceptions of the inventory of expressions: those built at run time, and those that never read untrusted text."""

from __future__ import annotations

__all__ = ["BOUNDED", "MADE", "NOT_OUTSIDE"]

BOUNDED: dict[str, tuple[int, str]] = {
    "search/synthesis/answer_types.py:_ANSWERS": (400, "a sentence is cut at MAX_SENTENCE"),
    "search/text/names.py:_AFTER_NAME": (40, "_UNSPACED_LEAD matches no more"),
    "search/text/sentences.py:_WORD": (24, "the search begins that far before a full stop"),
}
"""Quadratic, and never used on more than so many characters. The test measures them at that size."""

MADE: dict[str, str] = {
    "adapters/runtime_access.py:re.compile(f'(?<![\\\\w.-])({names})(?![\\\\w-]|\\\\.\\\\w)')": "names of tools in a message",
    "interpreter/run/task_parser.py:re.compile(f' {{0,3}}{re.escape(block.markup[0])}{{{len(bloc": "a task of many fences",
    "search/extract/html_tokens.py:_RAW_END": "HTML: scripts without an end",
    "search/index/folder_walk.py:re.compile('|'.join(expressions) if expressions else '(?!)',": "a path for patterns",
    "search/synthesis/answer_types.py:_QUESTIONS": "the type of a question",
    "search/synthesis/quotes.py:re.compile(before + ''.join(parts) + after)": "a quote in a document",
    "safety/vault/shapes.py:re.compile(whole)": "secrets: markers of every shape",
    "safety/vault/shapes.py:re.compile(start or re.escape(marker))": "secrets: markers of every shape",
}
"""Built from text of callers, models or documents. The case of `test_scanners.py` that measures each."""

NOT_OUTSIDE: dict[str, str] = {
    "server/operations.py:re.compile('[^/]+'.join(parts))": "paths of our own routes: each name is one segment, and a slash ends it",
    "server/parameters.py:re.search(self.pattern, text)": "its expressions are constants, each found as `pattern=` and measured",
}
