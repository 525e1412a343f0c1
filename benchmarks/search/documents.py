"""`python -m benchmarks.search.documents FOLDER`: gets the documents of the two sets of documentation, from packages of Debian 12.

The questions are in `questions/`: made by hand for these documents, one half for tuning, the other one held back.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["QUESTIONS", "SETS"]

QUESTIONS = Path(__file__).with_name("questions")
SETS = {"debian": "Debian's FAQ, history and handbook", "python": "Python's documentation"}
_PACKAGES = ("debian-faq", "debian-history", "debian-handbook", "python3.11-doc")
# The folder of a set, where its pages are in the packages, and which of them.
_PAGES = (
    ("debian/faq", "usr/share/doc/debian/FAQ", "*.en.html"),
    ("debian/history", "usr/share/doc/debian-history/docs", "*.en.html"),
    ("debian/handbook", "usr/share/doc/debian-handbook/html/en-US", "*.html"),
    *(
        (f"python/{part}", f"usr/share/doc/python3.11/html/{part}", "*.html")
        for part in ("library", "howto", "tutorial", "faq")
    ),
)


def main(words: list[str]) -> int:
    if len(words) != 1:
        print("usage: python -m benchmarks.search.documents FOLDER", file=sys.stderr)
        return 2
    target = Path(words[0])
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        subprocess.run(["apt-get", "download", *_PACKAGES], cwd=place, check=True, stdout=subprocess.DEVNULL)
        for package in sorted(place.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, place / "files"], check=True)
        for folder, source, pages in _PAGES:
            (target / folder).mkdir(parents=True, exist_ok=True)
            for page in (place / "files" / source).glob(pages):
                if not page.is_symlink():
                    shutil.copy(page, target / folder / page.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
