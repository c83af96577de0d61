"""The demo model's tokenizer: byte-level BPE as Qwen's, with a vocabulary of its own.

Training counts the pieces of a sample of our own records and merges the most frequent pair again and again; ties go to the
pair that sorts first, so the result depends on the sample alone.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from pathlib import Path

import regex

PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLIT = regex.compile(PATTERN)
SPECIAL = """<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> <|quad_start|> <|quad_end|>
<|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>""".split()
PLAIN = "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> <think> </think>".split()
AUDIO = "<|audio_start|> <|audio_end|> <|audio_pad|>".split()
ADDED = SPECIAL + PLAIN + AUDIO
ADDED_PATTERN = regex.compile("(" + "|".join(regex.escape(a) for a in ADDED) + ")")


def byte_symbols() -> list[str]:
    """GPT-2's printable stand-ins for the 256 bytes."""
    kept = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, spare = {b: chr(b) for b in kept}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + spare)
            spare += 1
    return [table[b] for b in range(256)]


SYMBOLS = byte_symbols()


def train(texts, rows: int):
    """Merges for a vocabulary of `rows` rows, the added tokens included."""
    counts = Counter()
    for text in texts:
        for part in ADDED_PATTERN.split(text):
            if part and part not in ADDED:
                counts.update(SPLIT.findall(part))
    words = [[SYMBOLS[b] for b in piece.encode()] for piece in counts]
    weights = list(counts.values())
    pairs, where = Counter(), defaultdict(set)
    for i, w in enumerate(words):
        for pair in zip(w, w[1:]):
            pairs[pair] += weights[i]
            where[pair].add(i)
    heap = [(-c, p) for p, c in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < rows - 256 - len(ADDED) and heap:
        count, pair = heapq.heappop(heap)
        if pairs[pair] != -count or count == 0:
            continue
        merges.append(pair)
        joined, touched = pair[0] + pair[1], set()
        for i in sorted(where[pair]):
            w = words[i]
            for p in zip(w, w[1:]):
                pairs[p] -= weights[i]
                where[p].discard(i) if p != pair else None
                touched.add(p)
            out, k = [], 0
            while k < len(w):
                if k + 1 < len(w) and (w[k], w[k + 1]) == pair:
                    out.append(joined)
                    k += 2
                else:
                    out.append(w[k])
                    k += 1
            words[i] = out
            for p in zip(out, out[1:]):
                pairs[p] += weights[i]
                where[p].add(i)
                touched.add(p)
        where.pop(pair, None)
        pairs[pair] = 0
        for p in touched:
            if pairs[p] > 0:
                heapq.heappush(heap, (-pairs[p], p))
    return merges


def tokenizer_json(merges) -> dict:
    vocabulary = {s: i for i, s in enumerate(sorted(SYMBOLS))}
    for a, b in merges:
        vocabulary[a + b] = len(vocabulary)
    first = len(vocabulary)
    added = [{"id": first + i, "content": a, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": a not in PLAIN} for i, a in enumerate(ADDED)]
    split = {"type": "Split", "pattern": {"Regex": PATTERN}, "behavior": "Isolated", "invert": False}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]}, "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "ignore_merges": False, "vocab": vocabulary, "merges": [list(m) for m in merges]},
    }


TOKENIZER_CONFIG = {
    "tokenizer_class": "Qwen2Tokenizer", "model_max_length": 262144, "pad_token": "<|endoftext|>", "eos_token": "<|im_end|>", "add_prefix_space": False, "add_bos_token": False,
    "clean_up_tokenization_spaces": False, "split_special_tokens": False, "errors": "replace", "bos_token": None, "unk_token": None,
}


class Tokenizer:
    """Encodes with a tokenizer.json of this form; pieces already seen are looked up. Text is taken to be NFC already."""

    def __init__(self, path: Path):
        data = json.loads(Path(path).read_text())
        self.vocabulary = data["model"]["vocab"]
        self.ranks = {tuple(m): i for i, m in enumerate(data["model"]["merges"])}
        self.added = {a["content"]: a["id"] for a in data["added_tokens"]}
        self.rows = len(self.vocabulary) + len(self.added)
        self.cache = {}
        self.texts = {}

    def piece(self, text: str) -> list[int]:
        found = self.cache.get(text)
        if found is None:
            word = [SYMBOLS[b] for b in text.encode()]
            while len(word) > 1:
                rank, i = min((self.ranks.get(p, 1 << 30), i) for i, p in enumerate(zip(word, word[1:])))
                if rank == 1 << 30:
                    break
                word[i : i + 2] = [word[i] + word[i + 1]]
            found = [self.vocabulary[w] for w in word]
            if len(self.cache) < 400000:
                self.cache[text] = found
        return found

    def __call__(self, text: str) -> list[int]:
        found = self.texts.get(text)
        if found is None:
            found = []
            for part in ADDED_PATTERN.split(text):
                if part in self.added:
                    found.append(self.added[part])
                elif part:
                    for piece in SPLIT.findall(part):
                        found += self.piece(piece)
            if len(text) < 80 and len(self.texts) < 100000:
                self.texts[text] = found
        return found
