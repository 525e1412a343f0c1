"""The readers of every file format: text, title and headings, and the reasons for files that cannot be read."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.examples import examples
from tests.kit.waiting import PATIENCE
from tests.unit.search.extract import files

from clicket.search.extract import archive, pdf
from clicket.search.extract.extracted_text import Extracted, Unreadable
from clicket.search.extract.formats import extract

WORD = '<w:document xmlns:w="w"><w:body>{}</w:body></w:document>'
SAID = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"


def headings(read: Extracted) -> list[tuple[str, int]]:
    assert all(read.text[one.start :].startswith(one.text) for one in read.headings)
    return [(one.text, one.level) for one in read.headings]


def refused(data: bytes, name: str) -> str:
    start = time.process_time()
    with pytest.raises(Unreadable) as caught:
        extract(data, name)
    assert time.process_time() - start < PATIENCE
    return caught.value.reason


def test_markdown_stays_as_it_is_and_gives_its_headings() -> None:
    text = (
        "---\nlayout: page\ntitle: 'The guide'\n---\n# Guide #\n\nText.\n\n```sh\n# no heading\n```\n\n## Install\n\n"
        "### On C#\n\nSetext\n------\n\n| a |\n---\n\n#no heading\n"
    )
    read = extract(text.encode(), "a.md")
    assert (read.title, read.text) == ("The guide", text)
    assert headings(read) == [("Guide", 1), ("Install", 2), ("On C#", 3), ("Setext", 2)]
    assert extract(b"Intro\n\n# First\n", "a.md").title == "First"


def test_underlined_headings_of_plain_text() -> None:
    text = "Manual\n======\n\nText.\n\nUse\n---\n\nMore\n----\n\nwords ---\n\nDeep\n~~~~\n"
    read = extract(text.encode(), "a.rst")
    assert (read.title, headings(read)) == ("Manual", [("Manual", 1), ("Use", 2), ("More", 2), ("Deep", 3)])
    assert extract(b"just text\n", "LICENSE") == Extracted(text="just text\n")


@pytest.mark.parametrize(
    ("text", "charset"),
    [
        ("这个问题是我们在中国的历史上看到的一个大问题，大家都说好。", "gb18030"),
        ("這個問題是我們在中國的歷史上看到的一個大問題，大家都說好。", "big5"),
        ("これはとてもよいほんです。よんでみてください。", "shift_jis"),
        ("これはとてもよいほんです。よんでみてください。", "euc-jp"),
        ("이것은 아주 좋은 책이다. 그리고 나는 이 책을 읽고 있다.", "euc-kr"),
        ("Это очень хорошая книга, и её надо прочитать.", "windows-1251"),
        ("Это очень хорошая книга, и ее надо прочитать.", "koi8-r"),
        ("Äpfel und Öl für schöne Grüße, voilà.", "windows-1252"),
        ("L'été dernier, les élèves ont été reçus à la mairie où le maire a présenté le château.", "windows-1252"),
        ("Zażółć gęślą jaźń, a potem przejdź się ulicą w stronę kościoła.", "windows-1250"),
        ("Η γρήγορη αλεπού πηδάει πάνω από το σκυλί και συνεχίζει τον δρόμο της.", "windows-1253"),
        ("هذا كتاب جيد جدا ويجب على كل من يريد أن يفهم تاريخ البلاد أن يقرأه.", "windows-1256"),
        ("这本书讲述了一个普通家庭在城市里的生活，作者用平静的语言写出了时代的变化。", "gb18030"),
        ("Äpfel und Öl, 中文", "utf-16"),
        ("Plain text without a mark", "utf-16-le"),
        ("Plain text without a mark", "utf-16-be"),
        ("Äpfel, 中文", "utf-8-sig"),
    ],
)
def test_plain_text_in_any_encoding(text: str, charset: str) -> None:
    assert extract(f"{text}\r\n{text}".encode(charset), "a.txt").text == f"{text}\n{text}"


def test_a_damaged_byte_does_not_spoil_the_rest() -> None:
    text = "这个问题 " * 30
    assert extract(text.encode() + b"\xe9" + text.encode(), "a.txt").text == f"{text}\N{REPLACEMENT CHARACTER}{text}"
    late = ("plain " * 20_000 + text).encode("gbk")
    assert extract(late, "a.txt").text.endswith(text)
    assert extract(f"<p>{text}".encode("gbk"), "a.html").text == text.strip()


def test_rows_of_a_table_can_be_understood_alone() -> None:
    assert extract(b'name;age\nAda;36\n"Bob; Jr";\n;;x\n', "a.csv").text == "name: Ada; age: 36\nname: Bob; Jr\nx"
    assert extract(b"1\t2\n3\t4\n", "a.tsv").text == "1 | 2\n3 | 4"
    assert extract(b'a,b\n"two\nlines",c\n', "a.csv").text == "a: two lines; b: c"
    assert extract(b'"' * 100_001, "a.csv").text
    assert extract(b"a," * 100_000, "a.csv").text == "a," * 100_000


def test_notebooks() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Study\n", "Of *things*."]},
        {
            "cell_type": "code",
            "source": "# load\nload()",
            "outputs": [
                {"output_type": "stream", "text": ["42 rows\n"]},
                {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": "<Figure>"}},
                {"output_type": "error", "traceback": ["no"]},
            ],
        },
        {"cell_type": "raw", "source": ""},
        "junk",
    ]
    read = extract(json.dumps({"cells": cells, "nbformat": 4}).encode(), "a.ipynb")
    assert (read.title, headings(read)) == ("Study", [("Study", 1)])
    assert read.text == "# Study\nOf *things*.\n\n```\n# load\nload()\n```\n\n42 rows\n\n<Figure>"
    old = {"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": ["Old"]}]}]}
    assert headings(extract(json.dumps(old).encode(), "a.ipynb")) == [("Old", 2)]


def test_mail() -> None:
    mail = (
        b"From: =?utf-8?q?Zo=C3=AB?= <z@example.org>\nTo: a@example.org\nSubject: Hello\nMIME-Version: 1.0\n"
        b"Content-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain; charset=latin-1\n\nCaf\xe9 at 5?\n"
        b"--x\nContent-Type: application/pdf\nContent-Disposition: attachment; filename=map.pdf\n\nAAAA\n--x--\n"
    )
    read = extract(mail, "a.eml")
    assert read.title == "Hello"
    assert read.text == "From: Zoë <z@example.org>\nTo: a@example.org\nSubject: Hello\nAttached: map.pdf\n\nCafé at 5?"
    page = extract(b"From: a\nContent-Type: text/html\n\n<p>Hi <b>you</b></p>", "a.eml")
    assert page.text == "From: a\n\nHi you"


def test_word() -> None:
    read = extract(files.docx(title="Of the template"), "a.docx")
    assert read.title == "Manual"
    assert headings(read) == [("Manual", 1), ("Install", 1), ("Linux", 2)]
    assert read.text == (
        "Manual\n\nWhat it is for.\n\nInstall\n\nLinux\n\nUse apt as usual.\n\nPort | Use\n8080 | the console"
    )
    changed = WORD.format("<w:p><w:del><w:r><w:t>gone</w:t></w:r></w:del><w:r><w:t>there</w:t></w:r></w:p>")
    assert extract(files.zipped({"word/document.xml": changed}), "a.docx").text == "there"


def test_sheets() -> None:
    read = extract(files.xlsx(), "a.xlsx")
    assert headings(read) == [("People", 1), ("Numbers", 1)]
    assert read.text == (
        "People\n\nname: Ada Lovelace; born: 1995-12-10; height: 1.65; alive: TRUE\n"
        "name: Bob; born: 1990-01-02 03:04; height: 0.3\n\nNumbers\n\n1 | 2.5 | three"
    )


def test_slides() -> None:
    read = extract(files.pptx(), "a.pptx")
    assert (read.title, headings(read)) == ("Roadmap", [("Roadmap", 1), ("Figures", 1)])
    assert read.text == "Roadmap\n\nFirst point\nSecond point\nSay hello.\n\nFigures\n\nusers | 12"


def test_opendocument() -> None:
    body = (
        '<office:text><text:h text:outline-level="2">Part</text:h><text:p>One<text:s text:c="2"/>two<text:note><text:p>a note'
        "</text:p></text:note>.</text:p><text:tracked-changes><text:p>gone</text:p></text:tracked-changes>"
        '<table:table table:name="T1"><table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>'
        "<table:table-cell><text:p>b</text:p></table:table-cell></table:table-row></table:table></office:text>"
    )
    read = extract(files.opendocument(body, title="Told"), "a.odt")
    assert (read.title, headings(read)) == ("Told", [("Part", 2)])
    assert read.text == "Part\n\nOne  twoa note.\n\na | b"
    sheet = '<office:spreadsheet><table:table table:name="Sales"><table:table-row><table:table-cell><text:p>7</text:p>'
    sheet += "</table:table-cell></table:table-row></table:table></office:spreadsheet>"
    assert extract(files.opendocument(sheet), "a.ods").text == "Sales\n\n7"


def test_books() -> None:
    read = extract(files.epub(), "a.epub")
    assert (read.title, headings(read)) == ("The Book", [("One", 1), ("Two", 1)])
    assert read.text == "One\n\nIt began.\n\nTwo\n\nIt ended."


def test_pages_of_a_pdf_can_be_counted() -> None:
    data = files.outlined_pdf("Page one zebra", "Page two okapi", title="Animals", outline={"okapi": 1, "none": 1})
    read = extract(data, "a.pdf")
    assert (read.title, read.text) == ("Animals", "Page one zebra\n\n\fPage two okapi")
    assert headings(read) == [("okapi", 1)]
    assert read.text.count("\f", 0, read.text.index("okapi")) == 1


def test_pdf_files_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = files.pdf("Some text")
    assert "password" in refused(files.outlined_pdf("x", title="", outline={}, password="secret"), "a.pdf")
    assert "damaged" in refused(whole[:150], "a.pdf")
    assert "damaged" in refused(b"no pdf at all", "a.pdf")
    assert "pictures" in refused(files.pdf("x", content=b""), "a.pdf")
    with pytest.raises(Unreadable, match="0 s"):
        pdf.extract_pdf(whole, seconds=0.001)
    monkeypatch.setattr(pdf, "pypdf_installed", lambda: False)
    with pytest.raises(Unreadable, match=r"pip install 'clicket\[documents\]'") as caught:
        extract(whole, "a.pdf")
    assert caught.value.again


def test_a_pdf_that_wants_all_memory_gets_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf, "MAX_MEMORY", 120 * 1024**2)
    bomb = files.pdf("x", content=b"BT /F1 12 Tf (" + b"a" * 12_000_000 + b") Tj ET")
    assert "memory" in refused(bomb, "a.pdf")


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"word/document.xml": "<!DOCTYPE a [<!ENTITY b 'c'>]>" + WORD.format(SAID.format("&b;"))}, "document type"),
        ({"word/document.xml": "<a>" + " " * 60_000_000 + "</a>"}, "unpacks to more"),
        ({"word/document.xml": "<a>" * 100_000}, "damaged"),
        ({"word/document.xml": WORD.format("")[:-5]}, "damaged"),
        ({"word/other.xml": ""}, "word/document.xml"),
        ({**{str(number): "" for number in range(300)}, "word/document.xml": WORD}, "parts"),
    ],
    ids=["entities", "unpacks", "deep", "cut", "other", "parts"],
)
def test_hostile_archives(parts: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_PARTS", 250)
    assert reason in refused(files.zipped(parts), "a.docx")


def test_archives_that_are_none() -> None:
    assert "not a zip" in refused(b"junk", "a.docx")
    assert "damaged" in refused(files.docx()[:-100], "a.docx")
    assert "password" in refused(b"\xd0\xcf\x11\xe0" + b"\0" * 600, "a.xlsx")


def test_more_than_people_write_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MAX_ELEMENTS", 3_000)
    read = extract(files.zipped({"word/document.xml": WORD.format(SAID.format("word") * 5_000)}), "a.docx")
    assert read.truncated
    assert read.text.count("word") == 999


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"\0\1\2" * 100, "not text"),
        ("a", b"\x7fELF\2\1\1\0" * 10, "not text"),
        ("a.csv", b"\0" * 100, "not text"),
        ("id_rsa", b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA", "private key"),
        ("a.png", b"x", "no text to read"),
        ("a.tar.gz", b"x", "no text to read"),
        ("a.doc", b"x", "save them as .docx"),
        ("a.ipynb", b"[" * 100_000, "damaged"),
        ("a.ipynb", b"{}", "no cells"),
        ("a.eml", b"nothing", "not an e-mail"),
        ("a.eml", b"From: a\n" + b"--x\n\nhi\n" * 2_000, "more lines or parts"),
        ("a.eml", b"From: a\nContent-Type: " + b"a;" * 1_000_000, "more lines or parts"),
        ("a.jsonl", b"{}", "many documents"),
    ],
)
def test_files_that_cannot_be_read(name: str, data: bytes, reason: str) -> None:
    assert reason in refused(data, name)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.md", b"# a" + b" " * 2_000_000 + b"#x\n"),
        ("a.md", b"#" * 2_000_000),
        ("a.md", b"# a\n" * 500_000),
        ("a.md", b"```\n" * 500_000),
        ("a.rst", b"a\n===\n" * 300_000),
        ("a.eml", b"From: a\nSubject: " + b"=?utf-8?q?a?= " * 100_000 + b"\n\nx"),
        ("a.txt", b"\xe9" * 2_000_000),
    ],
    ids=["spaces", "hashes", "headings", "fences", "underlines", "words", "latin"],
)
def test_hostile_text_costs_no_more_than_its_length(name: str, data: bytes) -> None:
    start = time.process_time()
    extract(data, name)
    assert time.process_time() - start < PATIENCE  # each takes less than a second; quadratic time would take hours


@settings(max_examples=examples(150), deadline=None)
@given(
    st.binary(max_size=300),
    st.sampled_from("a a.txt a.md a.rst a.csv a.ipynb a.eml a.html a.json a.docx a.xlsx a.odt a.epub a.py".split()),
)
def test_anything_is_read_or_refused(data: bytes, name: str) -> None:
    with suppress(Unreadable):
        headings(extract(data, name))
