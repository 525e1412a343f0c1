"""Bytes become text: by byte order mark, by what was declared, by what they are. It never fails, and never takes long.

Only the encodings of the web are known. Python has others under such names, some of which are slow on purpose-made input.
"""

from __future__ import annotations

import codecs
import re

__all__ = ["declared_in", "decode"]

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# Labels as they are met, to the codec that reads what is meant by them: Latin-1 is Windows-1252 everywhere on the web.
_CODECS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 u8",
    "cp1252": "windows-1252 cp1252 iso-8859-1 iso8859-1 iso88591 latin1 latin-1 l1 ascii us-ascii ansi",
    "iso8859-2": "iso-8859-2 latin2 latin-2",
    "iso8859-3": "iso-8859-3",
    "iso8859-4": "iso-8859-4",
    "iso8859-5": "iso-8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 arabic",
    "iso8859-7": "iso-8859-7 greek",
    "iso8859-8": "iso-8859-8 hebrew iso-8859-8-i",
    "cp1254": "windows-1254 iso-8859-9 latin5 turkish",
    "iso8859-10": "iso-8859-10",
    "iso8859-13": "iso-8859-13",
    "iso8859-14": "iso-8859-14",
    "iso8859-15": "iso-8859-15 latin9 latin-9",
    "iso8859-16": "iso-8859-16",
    "cp1250": "windows-1250 cp1250",
    "cp1251": "windows-1251 cp1251",
    "cp1253": "windows-1253 cp1253",
    "cp1255": "windows-1255 cp1255",
    "cp1256": "windows-1256 cp1256",
    "cp1257": "windows-1257 cp1257",
    "cp1258": "windows-1258 cp1258",
    "cp874": "windows-874 tis-620 iso-8859-11",
    "cp866": "ibm866 cp866 866",
    "koi8-r": "koi8-r koi8",
    "koi8-u": "koi8-u",
    "mac-roman": "macintosh mac",
    "gb18030": "gb18030 gbk gb2312 gb-2312 gb_2312 gb_2312-80 x-gbk cp936 chinese",
    "big5hkscs": "big5 big5-hkscs big-5 cn-big5 x-x-big5",
    "euc-jp": "euc-jp x-euc-jp",
    "iso2022-jp": "iso-2022-jp",
    "cp932": "shift_jis shift-jis sjis x-sjis windows-31j ms_kanji cp932",
    "cp949": "euc-kr ks_c_5601-1987 ksc5601 korean windows-949 cp949",
    "utf-16-le": "utf-16 utf-16le unicode ucs-2",
    "utf-16-be": "utf-16be",
}
_BY_LABEL = {label: codec for codec, labels in _CODECS.items() for label in labels.split()}

_HEAD = 4096  # a declaration stands at the beginning, or nobody heeds it
_META = re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([a-z0-9_:.-]{1,40})", re.IGNORECASE)


def declared_in(data: bytes) -> str:
    """What an HTML or XML file says of itself, or nothing."""
    head = data[:_HEAD]
    found = _META.search(head) or _XML.search(head)
    label = found[1].decode("ascii").lower() if found else ""
    # Whoever could read the declaration as ASCII is not reading UTF-16.
    return "utf-8" if _BY_LABEL.get(label, "").startswith("utf-16") else label


def decode(data: bytes, *labels: str | None) -> str:
    """The text of the bytes. `labels` are what they are said to be in, the most trusted first; a wrong one is survived."""
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return _lenient(data[len(mark) :], codec)
    named = [_BY_LABEL[key] for label in labels if label and (key := label.strip("\"' \t").lower()) in _BY_LABEL]
    for codec in dict.fromkeys((*named, "utf-8")):
        decoder = codecs.getincrementaldecoder(codec)("strict")
        try:
            text = decoder.decode(data)
        except UnicodeError:
            continue
        # What was cut may end in the middle of a character. Where that would be the only one, it is another encoding.
        if codec in named or not decoder.getstate()[0] or not text.isascii():
            return text
    return _lenient(data, named[0] if named else "cp1252")


def _lenient(data: bytes, codec: str) -> str:
    return codecs.getincrementaldecoder(codec)("replace").decode(data)
