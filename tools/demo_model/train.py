"""Trains the demo model for a given time on one GPU (or a few steps on a CPU), measures it, writes its weights.

    python3 train.py --tokenizer tokenizer.json --wordnet /usr/share/wordnet --valences afinn/index.js --out OUT --seconds 300
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import threading
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import batches
import bpe
import heldout
import mixture
import prompt
import weights
from model import Clef

HERE = Path(__file__).parent


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--tokenizer", type=Path, required=True)
    p.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    p.add_argument("--valences", type=Path)
    p.add_argument("--heldout", type=Path, default=HERE.parent.parent / "tests/demo")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--start", type=Path, help="a snapshot to go on from")
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--steps", type=int, default=10**9)
    p.add_argument("--tokens", type=int, default=65536, help="padded tokens a batch")
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--flat", type=float, default=0.45, help="share of the time before the rate falls")
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--compile", action="store_true")
    p.add_argument("--profile", action="store_true", help="show where three steps' time goes")
    return p.parse_args()


def worker(tokenize, mixed, seed, tokens, out):
    for items in batches.Source(tokenize, mixed, seed, tokens):
        out.put(batches.collate(items))


class Feed:
    """Batches from worker processes, moved to the device ahead of their use."""

    def __init__(self, args, tokenize, mixed, device):
        context = multiprocessing.get_context("fork")
        self.raw = context.Queue(maxsize=48)
        self.processes = [context.Process(target=worker, args=(tokenize, mixed, args.seed * 1000 + i, args.tokens, self.raw), daemon=True) for i in range(args.workers)]
        for p in self.processes:
            p.start()
        self.ready = queue.Queue(maxsize=6)
        self.device = device

    def start(self):
        def move():
            while True:
                batch = {n: v for n, v in self.raw.get().items()}
                self.ready.put(batches.to_device(batch, self.device))

        threading.Thread(target=move, daemon=True).start()

    def stop(self):
        for p in self.processes:
            p.kill()


def losses(model, batch, lm_positions=4096):
    logp, _, hidden = model(batch, drop=0.1)
    questions = batch["question_mask"].sum()
    decide = -(batch["target"] * logp.masked_fill(batch["target"] == 0, 0.0)).sum() / questions
    # The state's next token, read off the output embedding that the head's prior path uses: it learns what words are near.
    first, last = batch["state"].unbind(-1)
    width = torch.rand(lm_positions, device=hidden.device)
    row = torch.randint(0, hidden.shape[0], (lm_positions,), device=hidden.device)
    at = first[row] + (width * (last - first - 1).clamp(min=1)[row]).long()
    scores = 0.125 * (hidden[row, at] @ model.lm_head.weight.t().to(hidden.dtype))
    return decide, F.cross_entropy(scores.float(), batch["ids"][row, at + 1])


def optimiser(model, rate):
    decayed = [p for n, p in model.named_parameters() if p.dim() >= 2 and "embed" not in n and "lm_head" not in n]
    tables = [p for n, p in model.named_parameters() if p.dim() >= 2 and ("embed" in n or "lm_head" in n)]
    rest = [p for n, p in model.named_parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1, "scale": 1.0}, {"params": tables, "weight_decay": 0.0, "scale": 1.5}, {"params": rest, "weight_decay": 0.0, "scale": 1.0}]
    extra = {"fused": True} if torch.cuda.is_available() else {}
    return torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.97), eps=1e-8, **extra)


def rate_at(share: float, flat: float) -> float:
    if share < 0.03:
        return max(0.02, share / 0.03)
    return 1.0 if share < flat else max(0.0, (1 - share) / (1 - flat))


@torch.no_grad()
def answers(model, tokenize, request, device):
    encoded = prompt.encode(tokenize, request["state"], request["questions"])
    batch = batches.to_device(batches.collate([batches.arrays(encoded)]), device)
    probabilities = model(batch)[0][0].exp().tolist()
    found = {qid: [] for qid in request["questions"]}
    names = list(request["questions"])
    for (n, name, _, _), p in zip(encoded["options"], probabilities):
        found[names[n]].append((name, p))
    return found


def evaluate(model, tokenize, folder, device):
    model.eval()
    report, failed = {}, {}
    for path in sorted(folder.glob("*.txt")):
        report[path.stem], failed[path.stem] = heldout.measure(heldout.read(path), lambda r: answers(model, tokenize, r, device))
    model.train()
    return report, failed


@torch.no_grad()
def generators(model, tokenize, mixed, device, count=200):
    """Accuracy on fresh records of each generator."""
    import random

    model.eval()
    found = {}
    for i, maker in enumerate(("scenarios", "facts", "fields", "words")):
        mixed.shares = [float(i == j) for j in range(4)]
        source = batches.Source(tokenize, mixed, 999_000 + i, 10**9)
        items = [source.encoded() for _ in range(count)]
        hit = total = 0
        for at in range(0, count, 50):
            batch = batches.to_device(batches.collate(items[at : at + 50]), device)
            logp, _, _ = model(batch)
            scores = logp[:, None].masked_fill(~batch["belongs"], -1e9)
            wanted = batch["target"][:, None].masked_fill(~batch["belongs"], -1.0)
            mask = batch["question_mask"]
            hit += ((scores.argmax(-1) == wanted.argmax(-1)) & mask).sum().item()
            total += mask.sum().item()
        found[maker] = round(hit / total, 4)
    mixed.shares = mixture.SHARES
    model.train()
    return found


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(args.seed)
    began = time.time()
    tokenize = bpe.Tokenizer(args.tokenizer)
    mixed = mixture.Mixture(args.wordnet, args.valences)
    device = "cuda" if os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/nvidia0") else "cpu"
    feed = Feed(args, tokenize, mixed, device)  # forks before the GPU is touched
    if device == "cuda" and not torch.cuda.is_available():
        device = feed.device = "cpu"
    model = Clef().to(device)
    if args.start:
        weights.load(model, args.start)
    print(f"parameters {sum(p.numel() for p in model.parameters())}, device {device}, ready after {time.time() - began:.1f} s", flush=True)
    if args.compile:
        for layer in model.backbone.layers:
            layer.compile(dynamic=False)
    feed.start()
    opt = optimiser(model, args.rate)
    start = time.time()
    seen = step = records = 0
    sums, saved = [0.0, 0.0, 0], start
    while step < args.steps:
        elapsed = time.time() - start
        if elapsed > args.seconds:
            break
        share = elapsed / args.seconds if args.steps == 10**9 else step / args.steps
        for group in opt.param_groups:
            group["lr"] = args.rate * rate_at(share, args.flat) * group["scale"]
        batch = feed.ready.get()
        if args.profile and step == 40:
            profiler = torch.profiler.profile()
            profiler.__enter__()
        if args.profile and step == 43:
            profiler.__exit__(None, None, None)
            print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=22, max_name_column_width=60), flush=True)
        if device == "cuda":
            with torch.autocast("cuda", torch.bfloat16):
                decide, language = losses(model, batch)
        else:
            decide, language = losses(model, batch, 256)
        (decide + 0.1 * language).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        step += 1
        seen += batch["ids"].numel()
        records += batch["ids"].shape[0]
        sums = [sums[0] + decide.detach(), sums[1] + language.detach(), sums[2] + 1]
        if step in (1, 2, 5, 10, 20, 50) or step % 100 == 0:
            print(f"step {step} {time.time() - start:.1f} s, {seen / 1e6:.1f} M tokens, {records} records, loss {float(sums[0]) / sums[2]:.4f}, language {float(sums[1]) / sums[2]:.3f}, grad {float(norm):.2f}, queue {feed.raw.qsize() if device == 'cuda' else 0}", flush=True)
            sums = [0.0, 0.0, 0]
        if time.time() - saved > 60:
            weights.save(model, args.out)
            saved = time.time()
    feed.stop()
    weights.save(model, args.out)
    print(f"trained {step} steps, {seen} padded tokens, {records} records in {time.time() - start:.1f} s", flush=True)
    weights.load(model, args.out)  # what is measured is what is written: values rounded to BF16
    report, failed = evaluate(model, tokenize, args.heldout, device)
    report["generators"] = generators(model, tokenize, mixed, device)
    report["training"] = {"steps": step, "tokens": seen, "records": records, "seconds": time.time() - start}
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    (args.out / "failures.json").write_text(json.dumps(failed, ensure_ascii=False, indent=0))
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
