"""Encoded records as padded tensors, grouped by length."""

from __future__ import annotations

import random

import numpy as np
import torch

import mixture
import prompt

STEP = 64  # lengths are padded to multiples of the DeltaNet's chunk


def arrays(encoded: dict, targets=None) -> tuple:
    options = np.array([(first, last) for _, _, first, last in encoded["options"]], np.int16)
    owner = np.array([n for n, _, _, _ in encoded["options"]], np.int8)
    flat = np.concatenate([np.asarray(t, np.float32) for t in targets]) if targets else np.zeros(len(owner), np.float32)
    return (np.array(encoded["ids"], np.int16), np.array(encoded["questions"], np.int16), np.array(encoded["types"], np.int8), options, owner, flat, encoded["state"])


def collate(items: list[tuple]) -> dict:
    longest = -(-max(len(i[0]) for i in items) // STEP) * STEP
    b, q, k = len(items), max(len(i[1]) for i in items), max(len(i[4]) for i in items)
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


class Source:
    """Endless batches of about `tokens` padded tokens from one worker's stream of records."""

    def __init__(self, tokenize, mixed, seed: int, tokens: int, pool: int = 2048):
        self.tokenize, self.mixture = tokenize, mixed
        self.rng = random.Random(seed)
        self.tokens, self.pool = tokens, pool

    def encoded(self):
        while True:
            state, questions, targets = self.mixture.record(self.rng)
            item = prompt.encode(self.tokenize, state, questions)
            if len(item["ids"]) <= mixture.MAX_TOKENS:
                return arrays(item, targets)

    def __iter__(self):
        while True:
            items = sorted((self.encoded() for _ in range(self.pool)), key=lambda i: len(i[0]))
            batches, at = [], 0
            while at < len(items):
                end, longest = at, STEP
                while end < len(items):
                    longest = max(longest, -(-len(items[end][0]) // STEP) * STEP)
                    if longest * (end + 1 - at) > self.tokens:
                        break
                    end += 1
                batches.append(items[at : max(end, at + 1)])
                at = max(end, at + 1)
            self.rng.shuffle(batches)
            for b in batches:
                if sum(len(i[0]) for i in b) > self.tokens // 3:
                    yield b
