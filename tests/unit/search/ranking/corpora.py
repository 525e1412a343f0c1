"""Small collections, an engine over each, and a search of a few rounds like the machine's."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from clicket.model.document import Document
from clicket.search.findings import Findings, QueryResult, Round
from clicket.search.index.index import Index
from clicket.search.planning import BridgePlanner
from clicket.search.planning.coverage import CoverageAnalyzer
from clicket.search.protocols import Collection
from clicket.search.ranking import LinkRanker

FILMS = {
    "film": ("Silver Harbour", "Silver Harbour is a 1961 drama film directed by Ilse Brandt and starring Tom Reed."),
    "director": ("Ilse Brandt", "Ilse Brandt (born 1920) was a director. She grew up in the small town of Kelmsford."),
    "town": ("Kelmsford", "Kelmsford is a town on the river Arl, known for its paper mills."),
    "actor": ("Tom Reed", "Tom Reed was an actor who starred in comedies."),
    "other": ("Golden Harbour", "Golden Harbour is a 1970 film directed by Paul Marsh."),
    "third": ("Paul Marsh", "Paul Marsh (born 1932) is a director of films."),
    "noise": ("Harbour Bridge", "Harbour Bridge is a bridge of steel in a large harbour, with silver paint."),
    "birth": ("Place of birth", "The place of birth is the place where a person was born."),
    "river": ("Arl", "The Arl is a river that flows through the county of Westmark to the sea."),
    "county": ("Westmark", "Westmark is a county whose seat is Dunholm."),
}
CHINESE = {
    "书": ("青石镇", "《青石镇》是一部长篇小说，作者是林望舒，一九八五年出版。"),
    "人": ("林望舒", "林望舒，作家，出生于云溪县，后来在北京生活。"),
    "县": ("云溪县", "云溪县位于湖南省北部，以茶叶闻名。"),
    "杂": ("北京", "北京是中国的首都。"),
    "镇": ("白石镇", "白石镇是一个小镇，出产石头。"),
}


def index_of(rows: Mapping[str, tuple[str, str]], *, titles: bool = True) -> Index:
    index = Index.open()
    index.add([Document(id=key, title=title if titles else "", text=text) for key, (title, text) in rows.items()])
    return index


async def searched(
    index: Index, question: str, *, collection: Collection | None, rounds: int = 3, k: int = 10
) -> Findings:
    planner, ranker, analyzer = BridgePlanner(collection), LinkRanker(collection), CoverageAnalyzer(collection)
    findings = Findings(question=question)
    for number in range(1, rounds + 1):
        queries = await planner.plan(findings)
        if not queries:
            break
        found, documents = [], dict(findings.documents)
        for query in queries:
            answer = await index.search(query, k=k)
            documents |= {one.id: one for one in answer if one.id not in documents}
            found.append(QueryResult(query=query, documents=tuple(one.id for one in answer)))
        findings = msgspec.structs.replace(
            findings,
            rounds=(*findings.rounds, Round(number=number, found=tuple(found))),
            documents=documents,
            searched=(*findings.searched, *queries),
        )
        findings = msgspec.structs.replace(findings, ranked=tuple(ranker.rank(findings)))
        analysis = await analyzer.analyze(findings)
        last = msgspec.structs.replace(findings.rounds[-1], analysis=analysis)
        findings = msgspec.structs.replace(
            findings, rounds=(*findings.rounds[:-1], last), gaps=analysis.unexplored_areas
        )
    return findings


def best(findings: Findings, count: int) -> set[str]:
    return {one for one, _ in findings.ranked[:count]}
