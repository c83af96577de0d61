"""Trains the tokenizer on a sample of the generators' records and on WordNet's examples.

    python3 train_tokenizer.py --valences afinn/index.js --corpora corpora.jsonl.xz --out tokenizer.json
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import bpe
import mixture
import prompt

FIXED = [prompt.PREFIX, prompt.SUFFIX, "\n\nSCHEMA FIELDS:\n", "\nALLOWED OPTIONS:\nEND FIELD\nOPTION ID: TYPE: noul choice score INSTRUCTION: "]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    p.add_argument("--valences", type=Path)
    p.add_argument("--corpora", type=Path, help="texts of public datasets, by extract_corpora.py")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--records", type=int, default=60000)
    p.add_argument("--rows", type=int, default=8000)
    p.add_argument("--seed", type=int, default=2024)
    args = p.parse_args()
    mixed = mixture.Mixture(args.wordnet, args.valences, args.corpora)
    rng = random.Random(args.seed)
    texts = []
    for _ in range(args.records):
        state, questions, _ = mixed.record(rng)
        texts += [text for text, role in prompt.pieces(state, questions) if role]
    texts += [s.gloss for s in mixed.lexicon.common] + mixed.lexicon.examples
    merges = bpe.train(texts + FIXED * 2000, args.rows)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(bpe.tokenizer_json(merges), ensure_ascii=False))
    print(f"{len(texts)} texts, {len(merges)} merges, {args.rows} rows")


if __name__ == "__main__":
    main()
