"""Which reader a file is for, by its name alone. What is not known by name is read when it turns out to be text."""

from __future__ import annotations

from os.path import splitext

__all__ = ["KINDS", "kind_of"]

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
    "word": "docx docm dotx",
    "slides": "pptx pptm ppsx",
    "sheets": "xlsx xlsm",
    "opendocument": "odt ods odp",
    "book": "epub",
    "old office": "doc xls ppt xlsb rtf pages numbers key",
    "none": (
        "png svg jpg jpeg gif webp bmp ico tif tiff psd heic avif raw mp3 wav ogg flac m4a aac opus mp4 mkv mov avi webm wmv m4v mpg "
        "zip gz tgz bz2 xz 7z rar tar zst lz4 jar war whl egg deb rpm dmg iso img bin exe dll so dylib a o obj lib class pyc pyo "
        "wasm db db-wal db-shm db-journal sqlite sqlite-wal sqlite-shm sqlite3 mdb "
        "parquet feather arrow avro orc npy npz pkl pickle h5 hdf5 pt pth onnx safetensors gguf ckpt "
        "ttf otf woff woff2 eot map lock pem der p12 pfx keystore jks sig asc swp"
    ),
}
KINDS = tuple(_EXTENSIONS)
_BY_EXTENSION = {one: kind for kind, names in _EXTENSIONS.items() for one in names.split()}


def kind_of(name: str) -> str:
    """One of `KINDS`, or nothing when the name does not tell."""
    stem, extension = splitext(name.lower())
    if extension == ".gz":
        extension = splitext(stem)[1] + extension
        return _BY_EXTENSION.get(extension[1:], "none")
    return _BY_EXTENSION.get(extension[1:], "")
