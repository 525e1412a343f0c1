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

_HEAD = 4096
"""Bytes in which a declaration is looked for."""
_META = re.compile(rb"<meta[^>]{0,300}?charset\s{0,9}=\s{0,9}[\"']?\s{0,9}([a-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s{0,99}<\?xml[^>]{0,200}?encoding\s{0,9}=\s{0,9}[\"']([a-z0-9_:.-]{1,40})", re.IGNORECASE)

_SAMPLE = 64 * 1024
"""Bytes that the detection looks at."""
_BAD = "\N{REPLACEMENT CHARACTER}"
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_CONTROLS = bytes({*range(32), 127} - {7, 8, 9, 10, 11, 12, 13, 27})

# The most frequent characters of the languages that use an encoding. A text in that encoding has many of them.
_SIMPLIFIED = (
    "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里"
    "用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
    "日"
)
_TRADITIONAL = (
    "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡"
    "用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實"
    "日"
)
_KANA = "".join(map(chr, (*range(0x3041, 0x3094), *range(0x30A1, 0x30FB)))) + "、。"
_HANGUL = "이다는을에의가고하지로한은기도를서사어자아나시리니라대일그인게들과있"
_CYRILLIC = "оеаинтсрвлкмдпуяыьгзбчйхжшю"
_WESTERN = "äöüßéèêëàâçñáíóúôîïæøåÄÖÜÉ“”‘’–—…°§«»"
_CANDIDATES = (
    ("gb18030", _SIMPLIFIED),
    ("big5", _TRADITIONAL),
    ("shift_jis", _KANA),
    ("euc-jp", _KANA),
    ("euc-kr", _HANGUL),
    ("windows-1251", _CYRILLIC),
    ("koi8-r", _CYRILLIC),
    ("windows-1252", _WESTERN),
)
_MIN_SHARE = 0.12
"""Of the characters beyond ASCII, the share that must be frequent ones."""


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
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd > len(head) * 0.3 and even * 20 < odd:
        return "utf-16le"
    if even > len(head) * 0.3 and odd * 20 < even:
        return "utf-16be"
    return ""


def _detect(sample: bytes) -> str | None:
    """The encoding in which the sample has the largest share of frequent characters; None when no share is large enough."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(sample)
    if text.count(_BAD) * 10 <= sum(character > "\x7f" for character in text):  # a few bytes may be damaged
        return "utf-8"
    best, best_share = None, _MIN_SHARE
    for label, frequent in _CANDIDATES:
        characters = [character for character in decode(sample, label) if character > "\x7f"]
        if not characters:
            continue
        bad = sum(character == _BAD or "\x80" <= character < "\xa0" for character in characters)
        share = round((sum(map(frequent.__contains__, characters)) - 4 * bad) / len(characters), 6)
        if share > best_share:
            best, best_share = label, share
    return best
