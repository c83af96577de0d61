"""First embeddings: tokens that stand in the same company lie close together.

    python3 vectors.py --tokenizer tokenizer.json --valences afinn/index.js --corpora corpora.jsonl.xz --out vectors.safetensors

Counts neighbours in the texts of the datasets, in WordNet's entries (words with their definition) and in the phrase and label banks;
positive pointwise mutual information, cut to its largest singular vectors.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path

import numpy as np
import torch

import banks
import bpe
import mixture
import weights

WINDOW, WIDTH = 6, 256


def sequences(mixed, corpora: Path):
    with lzma.open(corpora, "rt", encoding="utf-8") as f:
        for line in f:
            item = json.loads(line)
            yield item["t"] + (" " + item["h"] if item.get("h") and item["l"] == "entailment" else "")
    for s in mixed.lexicon.common:
        yield " " + ", ".join(s.words) + ": " + s.gloss
    yield from mixed.lexicon.examples
    people = mixed.makers[-1]
    for labels in list(people.labels.values()) + [people.slots]:
        for label in labels.values():
            yield " " + ", ".join(label.names) + ": " + ", ".join(label.wishes)
    rng = __import__("random").Random(1)
    for domain in mixed.makers[0].domains:
        for facet in domain.facets:
            for value in facet.values:
                for parts in value.claims + value.descriptions + value.sentences * 4:
                    yield " " + rng.choice(value.names) + ", " + rng.choice(value.names) + ": " + banks.phrase(rng, parts)


def main():
    p = argparse.ArgumentParser()
    for name in ("tokenizer", "valences", "corpora", "out"):
        p.add_argument(f"--{name}", type=Path, required=True)
    p.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    args = p.parse_args()
    tokenize = bpe.Tokenizer(args.tokenizer)
    rows = tokenize.rows
    counts = np.zeros(rows * rows, np.float32)
    pairs, weigh = [], []

    def flush():
        np.add.at(counts, np.concatenate(pairs), np.concatenate(weigh)) if pairs else None
        pairs.clear(), weigh.clear()

    mixed = mixture.Mixture(args.wordnet, args.valences, args.corpora)
    for n, text in enumerate(sequences(mixed, args.corpora)):
        ids = np.array(tokenize(text), np.int64)
        for far in range(1, min(WINDOW, len(ids) - 1) + 1):
            pairs.append(ids[:-far] * rows + ids[far:])
            weigh.append(np.full(len(ids) - far, 1 / far, np.float32))
        if n % 20000 == 0:
            flush()
    flush()
    c = torch.from_numpy(counts.reshape(rows, rows))
    c = c + c.t()
    own, context = c.sum(1).clamp(min=1e-6), c.sum(0).clamp(min=1e-6) ** 0.75
    table = (c / own[:, None] * (context.sum() / context)[None]).clamp(min=1.0).log()
    torch.manual_seed(1)
    u, s, _ = torch.svd_lowrank(table, WIDTH + 32, niter=2)
    found = u[:, :WIDTH] * s[:WIDTH].sqrt()
    found = torch.nn.functional.normalize(found, dim=1)
    found = 0.8 * found + 0.6 * torch.nn.functional.normalize(torch.randn(rows, WIDTH), dim=1)
    weights.write(args.out, {"vectors": found * 0.5 * WIDTH**0.5})
    names = {i: w for w, i in tokenize.vocabulary.items()}
    near = torch.nn.functional.normalize(found, dim=1)
    for word in "angry refund tomorrow doctor cheap broken train invoice lonely".split():
        ids = tokenize(" " + word)
        if len(ids) == 1:
            print(word, [names.get(int(i), "?") for i in (near @ near[ids[0]]).topk(9)[1]])


if __name__ == "__main__":
    main()
