"""What a plain text without a declaration is written in, by a look at its beginning. It never fails, and never takes long."""

from __future__ import annotations

import codecs
import re

from clicket.search.extract.charset import decode

__all__ = ["decode_text", "is_binary"]

_LOOK = 64 * 1024
_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_BAD = "\N{REPLACEMENT CHARACTER}"
_FOREIGN = re.compile(rb"[\x80-\xff]")
_CONTROLS = bytes({*range(32), 127} - {7, 8, 9, 10, 11, 12, 13, 27})

# What every text of some length in these encodings has many of: the most frequent characters of their languages.
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
_TRIED = (
    ("gb18030", _SIMPLIFIED),
    ("big5", _TRADITIONAL),
    ("shift_jis", _KANA),
    ("euc-jp", _KANA),
    ("euc-kr", _HANGUL),
    ("windows-1251", _CYRILLIC),
    ("koi8-r", _CYRILLIC),
    ("windows-1252", _WESTERN),
)
_SURE = 0.12


def is_binary(data: bytes) -> bool:
    """No text that people read: bytes that no text has, and too many of them."""
    head = data[:_LOOK]
    if head.startswith(_MARKS) or not head or _wide(head):
        return False
    return b"\0" in head or len(head) - len(head.translate(None, _CONTROLS)) > len(head) // 50


def decode_text(data: bytes) -> str:
    """The text of the bytes, with line ends of one kind."""
    head = data[:_LOOK]
    label = None
    if not head.startswith(_MARKS):
        label = _wide(head)
        foreign = None if label else _FOREIGN.search(data)
        if foreign is not None:
            label = _guess(data[foreign.start() : foreign.start() + _LOOK])
    text = decode(data, label)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def _wide(head: bytes) -> str:
    """UTF-16 without its mark: every other byte of a mostly Latin text is zero."""
    if len(head) < 4 or b"\0" not in head:
        return ""
    even, odd = head[::2].count(0), head[1::2].count(0)
    if odd > len(head) * 0.3 and even * 20 < odd:
        return "utf-16le"
    if even > len(head) * 0.3 and odd * 20 < even:
        return "utf-16be"
    return ""


def _guess(head: bytes) -> str | None:
    """The encoding in which this reads most like a language; None when it reads like none."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(head)
    foreign = sum(one > "\x7f" for one in text)
    if text.count(_BAD) * 10 <= foreign:  # a few bytes may be damaged
        return "utf-8"
    best, most = None, _SURE
    for label, frequent in _TRIED:
        text = decode(head, label)
        told = [one for one in text if one > "\x7f"]
        if not told:
            continue
        bad = sum(one == _BAD or "\x80" <= one < "\xa0" for one in told)
        share = round((sum(map(frequent.__contains__, told)) - 4 * bad) / len(told), 6)
        if share > most:
            best, most = label, share
    return best
