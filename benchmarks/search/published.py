"""Figures of papers on sets of these names: recall of the supporting passages at 2 and at 5, in percent, as they print it.

Transcribed from summaries, not from the PDFs. Their pools and questions are others, except the passages of 2Wiki.
"""

from __future__ import annotations

__all__ = ["CAVEATS", "PUBLISHED", "SOURCES"]

Pair = tuple[float | None, float]

PUBLISHED: tuple[tuple[str, str, dict[str, Pair]], ...] = (
    ("BM25", "H", {"2wiki": (51.8, 61.9), "hotpotqa": (55.4, 72.2), "musique": (32.3, 41.2)}),
    ("ColBERTv2", "H", {"2wiki": (59.2, 68.2), "hotpotqa": (64.7, 79.3), "musique": (37.9, 49.2)}),
    ("HippoRAG (ColBERTv2)", "H", {"2wiki": (70.7, 89.1), "hotpotqa": (60.5, 77.7), "musique": (40.9, 51.9)}),
    ("IRCoT + BM25", "H", {"2wiki": (61.2, 75.6), "hotpotqa": (65.6, 79.0), "musique": (34.2, 44.7)}),
    ("IRCoT + HippoRAG", "H", {"2wiki": (75.8, 93.9), "hotpotqa": (67.0, 83.0), "musique": (45.3, 57.6)}),
    ("KAG", "K", {"2wiki": (65.4, 91.9), "hotpotqa": (72.8, 88.8), "musique": (48.5, 65.7)}),
    ("GFM-RAG", "G", {"2wiki": (90.8, 95.6), "hotpotqa": (78.3, 87.1), "musique": (49.1, 58.2)}),
    ("NV-Embed-v2 7B", "2", {"2wiki": (None, 76.5), "hotpotqa": (None, 94.5), "musique": (None, 69.7)}),
    ("HippoRAG 2", "2", {"2wiki": (None, 90.4), "hotpotqa": (None, 96.3), "musique": (None, 74.7)}),
)

SOURCES = (
    "[H] HippoRAG, arXiv 2405.14831, tables 2 and 3. [K] KAG, table 9. [G] GFM-RAG, table 1. "
    "[2] HippoRAG 2, arXiv 2502.14802."
)

CAVEATS = """
The papers ask 1,000 questions over 6,119 (2Wiki), 9,221 (HotpotQA) and 11,656 (MuSiQue) passages.
Their figures were taken from transcriptions of the tables.
2Wiki: the passages of the papers are all in our pool, which has some more; our questions are a part of theirs, and others.
HotpotQA: another sample of the same dev set, over a somewhat smaller pool.
MuSiQue: our pool is about half of theirs, so it is the easier one. The two rows for BM25 show by how much.
All passages are Wikipedia paragraphs around linked titles, the best case for following names.
So the rows with titles removed are the fairer guess for ordinary files.
Systems with a language model were measured with one; none is used here.
""".strip().splitlines()
