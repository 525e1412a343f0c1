"""The type of answer that a question asks for, and words that are related to its words, as tables for English and Chinese.

Types: number, date, place, person; name (of a file, a command, a package …), how (what to do), definition.

Without them, "When did X's father die?" finds sentences that repeat the question; with them, sentences with a date and "died".
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache

from clicket.model.text.terms import terms

__all__ = ["answer_type", "may_contain", "related_terms"]

_MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
_COUNT = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fifteen|twenty|thirty|forty|fifty|sixty|"
    "hundreds?|thousands?|millions?|billions?|dozens?|twice|once|both"
)
_PLACES = (
    "country|city|town|state|county|province|region|district|village|place|island|river|continent|nation|location|municipality|"
    "neighbou?rhood"
)
_THINGS = (
    "command|file|package|tool|option|program|software|function|method|module|class|exception|argument|parameter|directory|folder|"
    "port|flag|setting|variable|field|library|protocol|format|extension|utility|daemon|service|script|key|operator|decorator"
)
_TIMES = "year|date|day|month|decade|century"
_QUESTIONS = [
    (kind, re.compile(rf"{lead}(?<!\w{lead}){rest}"))  # begins with plain characters: many times faster than a boundary
    for kind, lead, rest in (
        ("number", "how ", r"(?:many|much|long|old|far|tall|high|large|big|fast|often)\b"),
        ("number", "population", r"\b"),
        ("number", "percent", ""),
        ("number", "number of", r"\b"),
        ("date", "wh", rf"(?:en|(?:at|ich) (?:{_TIMES}))\b"),
        ("date", "in what ", rf"(?:{_TIMES})\b"),
        ("date", "the ", rf"(?:{_TIMES})\b"),
        ("date", "date of", r"\b"),
        ("date", "how early", r"\b"),
        ("place", "wh", rf"(?:ere|(?:at|ich) (?:\w+ )?(?:{_PLACES}))\b"),
        ("place", "place of", r"\b"),
        ("place", "birthplace", r"\b"),
        ("place", "nationality", r"\b"),
        (
            "person",
            "wh",
            r"(?:o(?:m|se)?|(?:at|ich) (?:person|man|woman|actor|actress|singer|author|director|president))\b",
        ),
        ("name", "wh", rf"(?:at|ich) (?:\w+ )?(?:{_THINGS})s?\b"),
        ("how", "how ", r"(?:do|can|to|could|should|would|does one)\b"),
    )
] + [("definition", re.compile(r"^what(?: is|'s| are| does| do| was)\b"))]
_CHINESE_QUESTIONS = [
    ("name", re.compile("哪个?(?:命令|文件|软件|工具|选项|函数|模块|参数|目录|端口|包)")),
    ("how", re.compile("如何|怎[么样]")),
    ("number", re.compile("多少|几[个位人次年岁天座条部]|多[大长高远]")),
    ("date", re.compile("何时|什么时候|哪[一]?年|哪[一]?天|几月|日期|年份")),
    ("place", re.compile("哪里|哪儿|何处|何地|什么地方|哪[个一座]?(?:国|省|市|城|县|州|地|岛|河)|国籍|出生地")),
    ("person", re.compile("谁|哪位|何人|什么人")),
]
_OTHER_QUESTION_WORD = re.compile(r"\b(?:what|which|how|why)\b")
_RELATIVE_PRONOUN = re.compile(r"wh(?:ere|en|o|om|ose)\b")
# Several patterns for each type, the likeliest first: one that begins with a literal character is fast.
_ANSWERS = {
    "number": (re.compile(r"\d"), re.compile(rf"\b(?:{_COUNT})\b"), re.compile("[一二三四五六七八九十百千万亿两]")),
    "date": (
        re.compile(r"[12]\d{3}(?!\d)"),
        re.compile(r" (?:BC|AD|BCE|CE)\b| century"),
        re.compile(rf"[JFMASOND](?:{'|'.join(month[1:] for month in _MONTH.split('|'))}) \d"),
        re.compile("[年月]|世纪"),
    ),
    "place": (
        re.compile(r" (?:in|at|near|from|of|to|on) (?:the )?[A-ZÀ-Þ]"),
        re.compile(r", [A-ZÀ-Þ]"),
        re.compile(r"(?:ese|ian|ish|can)\b"),
        re.compile("[省市县州国区镇村岛港山河湖]"),
    ),
    "person": (
        re.compile(r"[A-ZÀ-Þ][\w.'’-]*+ (?>(?:(?:de|la|von|van|of|al|bin|ibn|the|der) )*)[A-ZÀ-Þ]"),
        re.compile("[·\u4e00-\u9fff]"),
    ),
    "name": (
        re.compile(r"[/_]\w|\w\(\)|\(\d\)"),
        re.compile(r"(?<![\w-])--?\w|\w\.\w|[a-z]-[a-z]"),
        re.compile(r"\w[A-Z]|[A-Z]{2}"),
    ),
    "how": (
        re.compile(r"(?<![\w-])--?\w|[/_]\w|\w\(|\$ |=\w"),
        re.compile(
            r"\b(?:[Uu]s(?:e|ing)|[Rr]un|[Ee]xecut|[Tt]ype|[Ee]dit|[Aa]dd|[Ss]et|[Ii]nstall|[Cc]reate|[Cc]all|command|[Pp]ass)"
        ),
        re.compile("[使用运行执行输入编辑]"),
    ),
    "definition": (
        re.compile(
            r" (?:is|are|was|were|means?|stands? for|refers? to|called|known as|allows?|provides?|returns?|does)\b"
        ),
        re.compile("是|称为|指"),
    ),
}
_RELATED = (
    "spouse wife husband married marry marriage widow wed partner couple",
    "father mother parent son daughter child children born grandfather grandmother paternal maternal",
    "sibling brother sister twin half-brother half-sister",
    "born birth birthplace native raised birthday",
    "die died dead death killed buried burial assassinated murdered executed",
    "study studied educate educated education school college university attend attended graduate graduated alma degree student",
    "found founded founder establish established create created creator form formed start started begin began origin originated",
    "located location situated lies lie stands near capital seat county region",
    "direct directed director film filmmaker",
    "write written wrote writer author novel book penned",
    "sing sang sung singer performer perform performed recorded record artist band song album vocals",
    "compose composed composer music score",
    "act actor actress star starred starring play played plays portrayed role character cast voice voiced",
    "employ employer employed work worked works job career professor taught joined company",
    "release released premiere premiered came debut published issued",
    "population inhabitants residents census people",
    "nationality country citizenship citizen nation",
    "lead led leader head president chairman chief governor minister chancellor ruler king queen emperor monarch reign",
    "own owned owner owns parent subsidiary acquired bought purchased",
    "make made maker manufacture manufactured manufacturer produced producer production built build constructed developed",
    "win won winner victory champion award awarded prize",
    "end ended abolished dissolved disbanded closed ceased",
    "border borders bordered bounded adjacent share shares",
    "league division team club plays football season",
    "mouth flows flow river tributary source empties",
    "religion religious church faith denomination",
    "occupation profession job",
    "long length km miles kilometres metres feet",
    "meet met",
    "buy bought sell sold",
)


@lru_cache(maxsize=1024)
def answer_type(question: str) -> str:
    """`number`, `date`, `place`, `person`, or empty if unknown. The first thing that is asked for counts."""
    plain = question[:1].lower() + question[1:]  # a capitalised question word elsewhere is part of a title
    questions = _QUESTIONS if plain.isascii() else [*_QUESTIONS, *_CHINESE_QUESTIONS]
    found = [
        (match.start(), number, kind)
        for number, (kind, asked) in enumerate(questions)
        if (match := asked.search(plain))
    ]
    if not found:
        return ""
    at, _, kind = min(found)
    which = _OTHER_QUESTION_WORD.search(plain)
    # "What is the seat of the county where …": after another question word, "where" and "who" are relative pronouns.
    return "" if which is not None and which.start() < at and _RELATIVE_PRONOUN.match(plain, at) else kind


def may_contain(sentence: str, kind: str) -> bool:
    """May this sentence contain an answer of this type?"""
    if not kind:
        return True
    for one in _ANSWERS[kind]:  # noqa: SIM110 - hot, and any() takes twice as long
        if one.search(sentence) is not None:
            return True
    return False


@cache
def _related() -> dict[str, frozenset[str]]:
    related: dict[str, frozenset[str]] = {}
    for line in _RELATED:
        members = frozenset(terms(line))
        for one in members:
            related[one] = related.get(one, frozenset()) | members
    return related


def related_terms(asked: Iterable[str]) -> dict[str, frozenset[str]]:
    """For each of the terms that has some, related terms."""
    related = _related()
    return {one: related[one] for one in asked if one in related}
