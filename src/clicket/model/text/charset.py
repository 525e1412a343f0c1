"""Bytes to text: by byte order mark, by declared encoding, or by detection. Decoding never fails, and its time is linear.

Only the encodings of the web are known. Python has more, and some of those are slow on hostile input.
"""

from __future__ import annotations

import codecs
import re

__all__ = ["declared_in", "decode", "decode_text", "is_binary"]

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

# Codecs by the labels that mean them. Latin-1 means Windows-1252 everywhere on the web.
_CODECS = {
    **{f"cp{page}": f"windows-{page} cp{page}" for page in (1250, 1251, 1253, 1255, 1256, 1257, 1258)},
    **{f"iso8859-{part}": f"iso-8859-{part}" for part in (3, 4, 10, 13, 14, 16)},
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 u8",
    "cp1252": "windows-1252 cp1252 iso-8859-1 iso8859-1 iso88591 latin1 latin-1 l1 ascii us-ascii ansi",
    "iso8859-2": "iso-8859-2 latin2 latin-2",
    "iso8859-5": "iso-8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 arabic",
    "iso8859-7": "iso-8859-7 greek",
    "iso8859-8": "iso-8859-8 hebrew iso-8859-8-i",
    "cp1254": "windows-1254 iso-8859-9 latin5 turkish",
    "iso8859-15": "iso-8859-15 latin9 latin-9",
    "cp874": "windows-874 tis-620 iso-8859-11 cp874",
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

_HEAD = 4096
"""Bytes in which a declaration is looked for."""
_META = re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([a-z0-9_:.-]{1,40})", re.IGNORECASE)

_SAMPLE = 64 * 1024
"""Bytes that the detection looks at."""
_BAD = "\N{REPLACEMENT CHARACTER}"
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_CONTROLS = bytes({*range(32), 127} - {7, 8, 9, 10, 11, 12, 13, 27})

_DETECTED = (
    "cp1252 cp1250 iso8859-2 cp1251 koi8-r koi8-u cp1253 cp1254 cp1255 cp1256 cp1257 cp874 gb18030 big5hkscs cp932 euc-jp cp949"
).split()
"""Encodings that the detection chooses from. UTF-8 and UTF-16 are recognised before."""
_HIRAGANA = re.compile("[\u3041-\u3093]")


def declared_in(data: bytes) -> str:
    """The encoding that an HTML or XML file declares for itself, or empty."""
    head = data[:_HEAD]
    found = _META.search(head) or _XML.search(head)
    label = found[1].decode("ascii").lower() if found else ""
    # A declaration that can be read as ASCII is not in UTF-16.
    return "utf-8" if _BY_LABEL.get(label, "").startswith("utf-16") else label


def decode(data: bytes, *labels: str | None) -> str:
    """The text of the bytes. `labels` are declared encodings, the most trusted first. A wrong label does no harm."""
    for mark, codec in _BOMS.items():
        if data.startswith(mark):
            return _lenient(data[len(mark) :], codec)
    named = [_BY_LABEL[key] for label in labels if label and (key := label.strip("\"' \t").lower()) in _BY_LABEL]
    for codec in dict.fromkeys((*named, "utf-8")):
        decoder = codecs.getincrementaldecoder(codec)("strict")
        try:
            text = decoder.decode(data)
        except UnicodeError:
            continue
        # Truncated data may end inside a character. If that is its only character beyond ASCII, it is not UTF-8.
        if codec in named or not decoder.getstate()[0] or not text.isascii():
            return text
    return _lenient(data, named[0] if named else "cp1252")


def is_binary(data: bytes) -> bool:
    """The bytes are not text: they hold a NUL byte, or more than 2 % control characters."""
    head = data[:_SAMPLE]
    if head.startswith(tuple(_BOMS)) or not head or _utf16_label(head):
        return False
    return b"\0" in head or len(head) - len(head.translate(None, _CONTROLS)) > len(head) // 50


def decode_text(data: bytes) -> str:
    """The text of a file that declares no encoding, with "\\n" as its only line end."""
    head = data[:_SAMPLE]
    label = None
    if not head.startswith(tuple(_BOMS)):
        label = _utf16_label(head)
        first = None if label else _NOT_ASCII.search(data)
        if first is not None:
            label = _detect(data[first.start() : first.start() + _SAMPLE])
    text = decode(data, label)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _lenient(data: bytes, codec: str) -> str:
    return codecs.getincrementaldecoder(codec)("replace").decode(data)


def _utf16_label(head: bytes) -> str:
    """UTF-16 without a byte order mark: every other byte of a mostly Latin text is zero."""
    if len(head) < 4 or b"\0" not in head:
        return ""
    even = head[::2].count(0)
    odd = head[1::2].count(0)
    if odd > len(head) * 0.3 and even * 20 < odd:
        return "utf-16le"
    if even > len(head) * 0.3 and odd * 20 < even:
        return "utf-16be"
    return ""


def _detect(sample: bytes) -> str | None:
    """The most probable encoding of a sample; None when it looks like none."""
    text = _lenient(sample, "utf-8")
    if text.count(_BAD) * 10 <= sum(character > "\x7f" for character in text):  # a few bytes may be damaged
        return "utf-8"
    for codec in ("cp932", "euc-jp"):  # chardet expects kanji in Japanese
        text = _lenient(sample, codec)
        if len(_HIRAGANA.findall(text)) * 2 > sum(character > "\x7f" for character in text):
            return codec
    import chardet  # takes 0.2 s to import, and most texts are UTF-8

    return chardet.detect(sample, include_encodings=_DETECTED, max_bytes=_SAMPLE)["encoding"]
