"""Reading files: the bytes of a file become plain text with a title and headings.

`formats.extract` is the entry point. It chooses a reader by the file's name and calls it; a reader returns `Extracted` or
raises `Unreadable`.

    formats           file extensions, and the reader of each
    plain_text        plain text, Markdown, source code, and HTML files
    html              the main text of an HTML page
    html_tokens       HTML as texts and tags
    tables            CSV and TSV, and how a row becomes a line of text
    json_records      JSON Lines and JSON arrays: one document for each record
    notebook, mail    Jupyter notebooks; saved mail
    docx, pptx, xlsx  Microsoft Office
    opendocument      LibreOffice: text, sheets, presentations
    epub              e-books
    pdf, pdf_child    PDF; the limited child process that runs pypdf
    archive           bounded reading of ZIP files of XML, for the Office and book readers
    extracted_text    the result, how blocks become one text, and the error
"""
