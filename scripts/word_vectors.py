"""Writes `src/clicket/tool_search/word_vectors.bin`: for each term of English a vector, such that the sum of the vectors of a text is
close to what a sentence encoder (all-MiniLM-L6-v2) makes of the whole text.

    python scripts/word_vectors.py WORDNET WORDS BOTOCORE GOOGLE

WORDNET and WORDS are those of `scripts/related_words.py`. BOTOCORE and GOOGLE are wheels (`pip download --no-deps botocore
google-api-python-client`), of which the descriptions of operations are read. It needs the extra `embeddings`, and takes half an hour: the
encoder reads about 100,000 texts. The file in the package is of an earlier
form of this script, with another draw of the texts: a new run gives other bytes, and has to be measured.

The texts are definitions and examples of WordNet, descriptions of operations, and combinations of frequent verbs and nouns: no tool and no
request of the benchmark is read.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZipFile

from related_words import POS, lines, vocabulary

from clicket.search.embedding.minilm import MiniLM
from clicket.tool_search.word_vectors import DIMENSIONS
from clicket.tool_search.words import plain_terms

OUT = Path(__file__).resolve().parents[1] / "src/clicket/tool_search/word_vectors.bin"
OF_ONE_SERVICE = 40
COMBINED = 14_000
SEEN = 5
"""Terms that are not frequent in English are taken if the texts have them so often."""
EPOCHS, BATCH, RATE, LEFT_OUT = 14, 2_048, 0.02, 0.15
"""Words are left out at random, so that no word relies on its neighbours."""
CLIPPED = 2.4
"""Numbers beyond so many standard deviations are cut."""
PATTERNS = (
    "{v} the {n}", "{v} a {n}", "{v} my {n} for {m}", "which {n}s are there in {m}?", "how many {n}s do we have?",
    "what is the {n} of this {m}?", "show me the {n} {m}", "can you {v} {n} and {m}", "I want to {v} a new {n}",
    "list all {n} {m}s", "{v} {n} of the {m}", "when is the next {n}?", "who is the {n} of the {m}?", "{p} the {n}",
    "please {v} this {n} to the {m}", "get {n} {m} details", "where is my {n}?", "tell me about the {n} {m}", "{v} {n}",
    "{n} {m}", "we need to {p} our {n}", "{p} that {n} please",
)  # fmt: skip


def beginning(text: str | None) -> str:
    """The first two sentences of a description."""
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text or "")).strip()
    return " ".join(re.split(r"(?<=[.!?])\s", plain)[:2])[:200]


def apart(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[._-]", " ", name).lower()


def newest(wheel: ZipFile, pattern: str) -> list[str]:
    """The newest description of each service."""
    found: dict[str, str] = {}
    for name in wheel.namelist():
        match = re.match(pattern, name)
        if match:
            found[match[1]] = max(found.get(match[1], ""), name)
    return list(found.values())


def operations(botocore: Path, google: Path, random: Random) -> list[str]:
    services: list[tuple[str, list[tuple[str, str]]]] = []
    with ZipFile(botocore) as wheel:
        for name in newest(wheel, r"botocore/data/([^/]+)/[^/]+/service-2.json"):
            data = wheel.read(name)
            service = json.loads(gzip.decompress(data) if name.endswith("gz") else data)
            about = service["metadata"]
            found = [(apart(key), beginning(each.get("documentation"))) for key, each in service["operations"].items()]
            services.append((about.get("serviceAbbreviation") or about["serviceFullName"], found))
    with ZipFile(google) as wheel:
        for name in newest(wheel, r".*discovery_cache/documents/([a-z0-9_]+)\.v[^/]+\.json$"):
            service = json.loads(wheel.read(name))
            found = [
                (apart(" ".join(each["id"].split(".")[-2:])), beginning(each.get("description")))
                for each in methods(service)
            ]
            services.append((service.get("title", "").replace(" API", ""), found))
    texts: list[str] = []
    for title, described in services:
        usable = [(name, text) for name, text in described if len(text) > 15]
        for name, text in random.sample(usable, min(OF_ONE_SERVICE, len(usable))):
            texts.append(random.choice([f"{title} {name}: {text}", f"{name}: {text}", text]))
    return texts


def methods(resource: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from methods(inner)


def definitions(folder: Path, rank: Mapping[str, int], random: Random) -> list[str]:
    texts: list[str] = []
    for kind in POS:
        for line in (folder / f"data.{kind}").read_text(encoding="utf-8").splitlines():
            fields, _, gloss = line.partition(" | ")
            if line.startswith(" "):
                continue
            parts = fields.split()
            lemmas = [lemma.lower().replace("_", " ") for lemma in parts[4 : 4 + 2 * int(parts[3], 16) : 2]]
            texts += [example for example in re.findall(r'"([^"]+)"', gloss) if 2 < len(example.split()) < 20]
            meaning = re.sub(r'"[^"]*"', "", gloss).strip(" ;")
            if min(rank.get(lemma, 99_999) for lemma in lemmas) < 12_000 and 2 < len(meaning.split()) < 25:
                texts.append(random.choice([meaning, f"{', '.join(lemmas)}: {meaning}"]))
    return texts


def combinations(folder: Path, rank: Mapping[str, int], random: Random) -> list[str]:
    verbs, nouns = ([fields[0] for fields in lines(folder, f"index.{kind}")] for kind in ("verb", "noun"))
    phrasal = [
        verb.replace("_", " ")
        for verb in verbs
        if "_" in verb and all(rank.get(part, 99_999) < 5_000 for part in verb.split("_"))
    ]
    usual = {
        "v": sorted((verb for verb in verbs if rank.get(verb, 99_999) < 6_000), key=lambda verb: rank[verb])[:1_200],
        "n": sorted((noun for noun in nouns if rank.get(noun, 99_999) < 12_000), key=lambda noun: rank[noun])[:5_000],
        "p": phrasal,
    }
    usual["m"] = usual["n"]

    def draw(words: list[str]) -> str:
        """Frequent words are drawn more often."""
        return words[min(int(random.expovariate(3 / len(words))), len(words) - 1)]

    return phrasal + [
        random.choice(PATTERNS).format_map({sign: draw(words) for sign, words in usual.items()})
        for _ in range(COMBINED)
    ]


def trained(rows: list[list[int]], wanted: Any, vectors: Any) -> Any:
    """Vectors of terms whose sums point where the texts do: cosine, by Adam. `rows`: the terms of each text; `wanted`: unit vectors."""
    import numpy as np

    random = np.random.default_rng(0)
    mean, square = np.zeros_like(vectors), np.zeros_like(vectors)
    batches = len(rows) // BATCH
    steps = EPOCHS * batches
    orders = [random.permutation(len(rows)) for _ in range(EPOCHS)]
    for step in range(steps):
        batch = orders[step // batches][(step % batches) * BATCH :][:BATCH]
        lengths = [len(rows[number]) for number in batch]
        terms = np.concatenate([rows[number] for number in batch])
        kept = (random.random(len(terms)) > LEFT_OUT).astype(np.float32)[:, None]
        sums = np.add.reduceat(vectors[terms] * kept, np.concatenate([[0], np.cumsum(lengths)[:-1]]), axis=0)
        norms = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
        units, target = sums / norms, wanted[batch]
        slopes = ((units * target).sum(1, keepdims=True) * units - target) / norms
        by_word = slopes[np.repeat(np.arange(len(batch)), lengths)] * kept
        by_term = np.argsort(terms, kind="stable")
        starts = np.concatenate([[0], np.nonzero(np.diff(terms[by_term]))[0] + 1])
        changed = terms[by_term][starts]
        slope = np.add.reduceat(by_word[by_term], starts, axis=0)
        mean[changed] = 0.9 * mean[changed] + 0.1 * slope
        square[changed] = 0.99 * square[changed] + 0.01 * slope * slope
        vectors[changed] -= RATE * max(0.02, 1 - step / steps) * mean[changed] / (np.sqrt(square[changed]) + 1e-8)
    return vectors


def packed(terms: list[str], vectors: Any) -> bytes:
    """A line of terms; then for each a byte for its weight, and four bits for each dimension."""
    import numpy as np

    unit = CLIPPED * np.sqrt((vectors**2).mean(1, keepdims=True)) / 15
    nibbles = np.clip(np.round((vectors / unit + 15) / 2), 0, 15).astype(np.uint8)
    read = 2 * nibbles.astype(int) - 15
    scales = (vectors * read).sum(1) / (read**2).sum(1)
    weights = np.clip(np.round(scales / np.quantile(scales, 0.9995) * 255), 1, 255).astype(np.uint8)
    rows = np.concatenate([weights[:, None], (nibbles[:, 0::2] << 4) | nibbles[:, 1::2]], axis=1)
    return " ".join(terms).encode() + b"\n" + rows.tobytes()


def main() -> None:
    import numpy as np

    folder, listed, botocore, google = map(Path, sys.argv[1:5])
    words = listed.read_text(encoding="utf-8").split()
    rank = {word: number for number, word in enumerate(words)}
    random = Random(7)
    known = vocabulary(words, {fields[0] for kind in POS for fields in lines(folder, f"index.{kind}")})
    found = [
        *operations(botocore, google, random),
        *definitions(folder, rank, random),
        *combinations(folder, rank, random),
    ]
    texts = list(dict.fromkeys(found))
    counts = Counter(term for text in texts for term in plain_terms(text))
    terms = [
        *known,
        *(term for term, count in counts.items() if term not in known and count >= SEEN and not term.isdigit()),
    ]
    terms = [term for term in terms if term.isascii()]
    at = {term: number for number, term in enumerate(terms)}
    encoder = MiniLM(max_tokens=64)
    of_words, of_texts = encoder.embed(list(known.values())), encoder.embed(texts)
    rows = [[at[term] for term in plain_terms(text) if term in at] for text in texts]
    usable = [number for number, row in enumerate(rows) if row]
    common = of_texts.mean(axis=0)
    wanted = np.concatenate([of_texts[usable], of_words]) - common
    axes = np.linalg.svd(wanted[:20_000], full_matrices=False)[2][:DIMENSIONS].T
    wanted = wanted @ axes
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    first = np.random.default_rng(0).normal(size=(len(terms), DIMENSIONS)).astype(np.float32) * 0.01
    rarity = np.clip(np.log([51.0 + rank[word] for word in known.values()]) - 3.0, 0.2, None) / 5
    first[: len(known)] = wanted[len(usable) :] * rarity[:, None]
    vectors = trained(
        [*(rows[number] for number in usable), *([number] for number in range(len(known)))], wanted, first
    )
    OUT.write_bytes(packed(terms, vectors))
    print(f"{OUT}: {len(terms)} terms, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
