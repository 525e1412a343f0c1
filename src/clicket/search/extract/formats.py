"""File formats: which reader a file gets, by the extension of its name, and the call of that reader.

A file whose extension is not known is read as plain text when its bytes are text.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from os.path import splitext

from clicket.search.extract.extracted_text import Extracted, Unreadable

__all__ = ["MAX_FILE", "READER", "extract", "kind_of", "no_reader"]

READER = 3
"""The version of the readers. Raise it when they return another text than before: then unchanged files are read again."""
MAX_FILE = 64 * 1024 * 1024
"""Bytes of a file that is read as a whole."""

_EXTENSIONS = {
    "text": "txt text log rst adoc asciidoc org tex bib srt vtt diff patch",
    "markdown": "md markdown mdown mkd mdx rmd qmd",
    "html": "html htm xhtml",
    "code": (
        "py pyi pyx js mjs cjs jsx ts tsx java kt kts scala groovy go rs c h cc cpp cxx hpp hh cs fs vb swift m mm rb php pl pm "
        "lua r jl dart ex exs erl hrl clj cljs hs ml mli elm nim zig v sv vhd vhdl asm s sh bash zsh fish ps1 bat cmd sql graphql "
        "proto thrift tf hcl css scss sass less vue svelte yaml yml toml ini cfg conf properties env xml xsd xsl xslt "
        "gradle cmake mk nix dockerfile el lisp scm vim awk sol cu cuh f f90 pas"
    ),
    "table": "csv tsv tab",
    "records": "jsonl ndjson jsonl.gz ndjson.gz",
    "json": "json geojson webmanifest",
    "notebook": "ipynb",
    "mail": "eml",
    "pdf": "pdf",
    "docx": "docx docm dotx",
    "pptx": "pptx pptm ppsx",
    "xlsx": "xlsx xlsm",
    "opendocument": "odt ods odp",
    "epub": "epub",
    "old office": "doc xls ppt xlsb rtf pages numbers key",
    "none": (
        "png svg jpg jpeg gif webp bmp ico tif tiff psd heic avif raw mp3 wav ogg flac m4a aac opus mp4 mkv mov avi webm wmv m4v mpg "
        "zip gz tgz bz2 xz 7z rar tar zst lz4 jar war whl egg deb rpm dmg iso img bin exe dll so dylib a o obj lib class pyc pyo "
        "wasm db db-wal db-shm db-journal sqlite sqlite-wal sqlite-shm sqlite3 mdb "
        "parquet feather arrow avro orc npy npz pkl pickle h5 hdf5 pt pth onnx safetensors gguf ckpt "
        "ttf otf woff woff2 eot map lock pem der p12 pfx keystore jks sig asc swp"
    ),
}
_BY_EXTENSION = {extension: kind for kind, extensions in _EXTENSIONS.items() for extension in extensions.split()}

_READERS = {
    "": "plain_text:extract_text",
    "text": "plain_text:extract_text",
    "code": "plain_text:extract_code",
    "json": "plain_text:extract_code",
    "markdown": "plain_text:extract_markdown",
    "html": "plain_text:extract_html_file",
    "table": "tables:extract_table",
    "notebook": "notebook:extract_notebook",
    "mail": "mail:extract_mail",
    "pdf": "pdf:extract_pdf",
    "docx": "docx:extract_docx",
    "pptx": "pptx:extract_pptx",
    "xlsx": "xlsx:extract_xlsx",
    "opendocument": "opendocument:extract_opendocument",
    "epub": "epub:extract_epub",
}
"""Module and function. Records have no reader here: one such file holds many documents."""


def kind_of(name: str) -> str:
    """A key of `_EXTENSIONS`, or empty when the extension is not known."""
    stem, extension = splitext(name.lower())
    if extension == ".gz":
        extension = splitext(stem)[1] + extension
        return _BY_EXTENSION.get(extension[1:], "none")
    return _BY_EXTENSION.get(extension[1:], "")


def no_reader(name: str) -> str | None:
    """Why a file of this name is not opened at all; None when it is."""
    kind = kind_of(name)
    if kind == "none":
        return f"{_ending(name)} files have no text to read"
    if kind == "old office":
        return f"{_ending(name)} files are not read; save them as .docx, .xlsx, .pptx or .pdf"
    return None


def extract(data: bytes, name: str) -> Extracted:
    """The text of a file. Raises `Unreadable` with the reason."""
    refused = no_reader(name)
    if refused is not None:
        raise Unreadable(refused)
    kind = kind_of(name)
    if kind not in _READERS:
        raise Unreadable(f"{_ending(name)} files hold many documents; add their folder")
    module, function = _READERS[kind].split(":")
    read: Callable[[bytes], Extracted] = getattr(import_module(f"clicket.search.extract.{module}"), function)
    try:
        return read(data)
    except Unreadable:
        raise
    except RecursionError:
        raise Unreadable("damaged: nested too deeply") from None
    except MemoryError:
        raise Unreadable("it takes more memory than there is", again=True) from None
    except Exception as error:  # a reader's failure concerns this file only
        raise Unreadable(f"damaged: {str(error) or type(error).__name__}"[:300]) from error


def _ending(name: str) -> str:
    return f".{name.lower().rpartition('.')[2]}"
