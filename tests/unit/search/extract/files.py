"""Sample files as bytes: written by the formats' own libraries, or by hand where they must be unusual."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping


def zipped(parts: Mapping[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return made.getvalue()


def pdf(*pages: str, content: bytes | None = None) -> bytes:
    """A plain PDF file, a line on each page. `content` is what its last page draws instead."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * number) for number in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(pages), kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R "
            b"/Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * number)
        )
        drawn = b"BT /F1 12 Tf 72 720 Td (%s) Tj ET" % text.encode()
        if content is not None and number == len(pages) - 1:
            drawn = content
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(drawn), drawn))
    made, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    size = len(objects) + 1
    return made + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (size, table, size, len(made))
    )


def outlined_pdf(*pages: str, title: str, outline: Mapping[str, int], password: str = "") -> bytes:
    """The same with a title, a table of contents (text and page, counted from 0), and perhaps locked."""
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf(*pages)))
    writer.add_metadata({"/Title": title})
    for text, number in outline.items():
        writer.add_outline_item(text, number)
    if password:
        writer.encrypt(password, algorithm="RC4-128")
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


def docx(title: str = "") -> bytes:
    import docx

    file = docx.Document()
    file.core_properties.title = title
    file.add_heading("Manual", 0)
    file.add_paragraph("What it is for.")
    file.add_heading("Install", 1)
    file.add_heading("Linux", 2)
    line = file.add_paragraph("Use ")
    line.add_run("apt").bold = True
    line.add_run(" as usual.")
    table = file.add_table(2, 2)
    for at, text in enumerate(("Port", "Use", "8080", "the console")):
        table.cell(at // 2, at % 2).text = text
    return _saved(file)


def xlsx() -> bytes:
    import datetime as dt

    import openpyxl

    file = openpyxl.Workbook()
    people = file.active
    people.title = "People"
    people.append(["name", "born", "height", "alive"])
    people.append(["Ada Lovelace", dt.date(1995, 12, 10), 1.65, True])
    people.append(["Bob", dt.datetime(1990, 1, 2, 3, 4), 0.1 + 0.2, None])  # noqa: DTZ001 - a sheet knows no zones
    file.create_sheet("Nothing")
    file.create_sheet("Numbers").append([1, 2.5, "three"])
    hidden = file.create_sheet("Hidden")
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    return _saved(file)


def pptx() -> bytes:
    import pptx

    file = pptx.Presentation()
    first = file.slides.add_slide(file.slide_layouts[1])
    first.shapes.title.text = "Roadmap"
    first.placeholders[1].text = "First point\nSecond point"
    first.notes_slide.notes_text_frame.text = "Say hello."
    second = file.slides.add_slide(file.slide_layouts[5])
    second.shapes.title.text = "Figures"
    table = second.shapes.add_table(1, 2, 0, 0, 100, 100).table
    table.cell(0, 0).text, table.cell(0, 1).text = "users", "12"
    return _saved(file)


def opendocument(body: str, *, title: str = "") -> bytes:
    spaces = "office text table draw dc".split()
    named = " ".join(f'xmlns:{one}="urn:{one}"' for one in spaces)
    return zipped(
        {
            "content.xml": f"<office:document-content {named}><office:body>{body}</office:body></office:document-content>",
            "meta.xml": f"<office:document-meta {named}><dc:title>{title}</dc:title></office:document-meta>",
        }
    )


def epub() -> bytes:
    return zipped(
        {
            "META-INF/container.xml": '<container><rootfiles><rootfile full-path="OPS/b.opf"/></rootfiles></container>',
            "OPS/b.opf": (
                '<package xmlns:dc="dc"><metadata><dc:title>The Book</dc:title></metadata><manifest>'
                '<item id="b" href="two.xhtml" media-type="application/xhtml+xml"/>'
                '<item id="a" href="one%20a.xhtml" media-type="application/xhtml+xml"/></manifest>'
                '<spine><itemref idref="a"/><itemref idref="b"/></spine></package>'
            ),
            "OPS/one a.xhtml": "<html><body><h1>One</h1><p>It began.</p></body></html>",
            "OPS/two.xhtml": "<html><body><h1>Two</h1><p>It ended.</p></body></html>",
        }
    )


def _saved(file: object) -> bytes:
    made = io.BytesIO()
    file.save(made)  # type: ignore[attr-defined]
    return made.getvalue()
