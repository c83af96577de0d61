"""Encoded records as padded tensors, grouped by length."""

from __future__ import annotations

import random

import numpy as np
import torch

import mixture
import prompt

STEP = 64  # lengths are padded to multiples of the DeltaNet's chunk
SMOOTH = 0.03  # of a target's weight is spread over all options: the model was too sure of wording that it had not seen


def arrays(encoded: dict, targets=None) -> tuple:
    options = np.array([(first, last) for _, _, first, last in encoded["options"]], np.int16)
    owner = np.array([n for n, _, _, _ in encoded["options"]], np.int8)
    flat = np.concatenate([np.asarray(t, np.float32) for t in targets]) if targets else np.zeros(len(owner), np.float32)
    return (np.array(encoded["ids"], np.int16), np.array(encoded["questions"], np.int16), np.array(encoded["types"], np.int8), options, owner, flat, encoded["state"])


def smooth(target: list[float]) -> list[float]:
    return [(1 - SMOOTH) * p + SMOOTH / len(target) for p in target]


def collate(items: list[tuple], length: int = 0, q: int = 0, k: int = 0) -> dict:
    longest = length or -(-max(len(i[0]) for i in items) // STEP) * STEP
    b, q, k = len(items), q or max(len(i[1]) for i in items), k or max(len(i[4]) for i in items)
    ids, lengths = np.zeros((b, longest), np.int16), np.zeros(b, np.int16)
    questions, types, options, owner = np.zeros((b, q, 2), np.int16), np.zeros((b, q), np.int8), np.zeros((b, k, 2), np.int16), np.zeros((b, k), np.int8)
    target, question_mask, belongs, state = np.zeros((b, k), np.float32), np.zeros((b, q), bool), np.zeros((b, q, k), bool), np.zeros((b, 2), np.int16)
    for r, (i, u, y, o, w, p, s) in enumerate(items):
        ids[r, : len(i)], lengths[r] = i, len(i)
        questions[r, : len(u)], types[r, : len(y)], question_mask[r, : len(u)] = u, y, True
        options[r, : len(o)], owner[r, : len(w)], target[r, : len(p)] = o, w, p
        belongs[r, w, np.arange(len(w))] = True
        state[r] = s
    return {"ids": ids, "lengths": lengths, "questions": questions, "types": types, "options": options, "owner": owner, "target": target, "question_mask": question_mask, "belongs": belongs, "state": state}


def to_device(batch: dict, device) -> dict:
    """Small integers travel, int64 works."""
    moved = {n: torch.from_numpy(v).to(device, non_blocking=True) for n, v in batch.items()}
    return {n: v.long() if v.dtype in (torch.int8, torch.int16) else v for n, v in moved.items()}


LENGTHS = (192, 256, 320, 384, 448)


class Source:
    """Endless batches of fixed shapes: for each padded length as many records as `tokens` hold, with all questions padded."""

    def __init__(self, tokenize, mixed, seed: int, tokens: int):
        self.tokenize, self.mixture = tokenize, mixed
        self.rng = random.Random(seed)
        self.tokens, self.made = tokens, 0

    def encoded(self):
        """A record of at most the longest length; questions are dropped to get there."""
        while True:
            state, questions, targets = self.mixture.record(self.rng)
            while questions:
                item = prompt.encode(self.tokenize, state, questions)
                if len(item["ids"]) <= LENGTHS[-1]:
                    self.made += 1
                    return arrays(item, [t if y == prompt.TYPES["score"] else smooth(t) for t, y in zip(targets, item["types"])])
                questions.popitem()
                targets.pop()

    def __iter__(self):
        waiting = {length: [] for length in LENGTHS}
        while True:
            item = self.encoded()
            length = next(n for n in LENGTHS if len(item[0]) <= n)
            waiting[length].append(item)
            if len(waiting[length]) == rows(length, self.tokens):
                yield length, collate(waiting[length], length, mixture.MAX_QUESTIONS, mixture.MAX_OPTIONS)
                waiting[length] = []


def rows(length: int, tokens: int) -> int:
    return max(1, tokens // length)
