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
import traceback
from pathlib import Path

import torch
import torch.nn.functional as F

import batches
import bpe
import heldout
import mixture
import model as network
import prompt
import weights
from model import Clef
from optimiser import Optimiser

HERE = Path(__file__).parent


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--tokenizer", type=Path, required=True)
    p.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    p.add_argument("--valences", type=Path)
    p.add_argument("--heldout", type=Path, default=HERE.parent.parent / "tests/demo")
    p.add_argument("--out", type=Path, required=True)
    p.add_argument("--start", type=Path, help="a snapshot to go on from")
    p.add_argument("--new-head", action="store_true", help="take only the backbone from --start")
    p.add_argument("--seconds", type=float, default=300)
    p.add_argument("--steps", type=int, default=10**9)
    p.add_argument("--tokens", type=int, default=16384, help="padded tokens a batch and GPU")
    p.add_argument("--matrix-rate", type=float, default=4e-3)
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--flat", type=float, default=0.4, help="share of the time before the rates fall")
    p.add_argument("--language", type=float, default=0.02, help="weight of the next-token loss")
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--compile", action="store_true", help="fuse elementwise pieces; about two minutes on a fresh machine unless TORCHINDUCTOR_CACHE_DIR keeps them")
    p.add_argument("--profile", action="store_true", help="show where three steps' time goes")
    return p.parse_args()


def worker(tokenize, mixed, seed, tokens, out):
    mixed.shares = mixture.FIRST_SHARES
    source = batches.Source(tokenize, mixed, seed, tokens)
    for batch in source:
        if source.made > mixture.FIRST_RECORDS:
            mixed.shares = mixture.SHARES
        out.put(batch)


class Feed:
    """Batches from worker processes, moved to the device ahead of their use."""

    def __init__(self, args, tokenize, mixed, rank):
        context = multiprocessing.get_context("fork")
        self.raw = context.Queue(maxsize=64)
        self.processes = [context.Process(target=worker, args=(tokenize, mixed, args.seed * 10000 + rank * 100 + i, args.tokens, self.raw), daemon=True) for i in range(args.workers)]
        for p in self.processes:
            p.start()
        self.ready = queue.Queue(maxsize=8)

    def start(self, device):
        def move():
            while True:
                length, batch = self.raw.get()
                self.ready.put((length, batches.to_device(batch, device)))

        threading.Thread(target=move, daemon=True).start()

    def stop(self):
        for p in self.processes:
            p.kill()


def losses(model, batch, picks=8):
    logp, _, hidden = model(batch, drop=0.1)
    questions = batch["question_mask"].sum()
    decide = -(batch["target"] * logp.masked_fill(batch["target"] == 0, 0.0)).sum() / questions
    # The state's next token, read off the output embedding that the head's prior path uses: it learns what words are near.
    first, last = batch["state"].unbind(-1)
    at = first[:, None] + (torch.rand(first.shape[0], picks, device=hidden.device) * (last - first - 1).clamp(min=1)[:, None]).long()
    chosen = (torch.arange(hidden.shape[1], device=hidden.device) == at[..., None]).to(hidden.dtype) @ hidden
    scores = 0.125 * (chosen @ model.lm_head.weight.t().to(hidden.dtype))
    return decide, F.cross_entropy(scores.float().flatten(0, 1), batch["ids"].gather(1, at + 1).flatten())


class Steps:
    """Forward and backward of one batch; on a GPU as one recorded graph for each padded length."""

    def __init__(self, model, language, device, compiled):
        self.model, self.language, self.device = model, language, device
        self.graphs = {}
        self.compiled = compiled

    def run(self, batch):
        """Adds to the gradients; returns the two losses."""
        if self.device.type == "cuda":
            with torch.autocast("cuda", torch.bfloat16):
                decide, language = losses(self.model, batch)
        else:
            decide, language = losses(self.model, batch)
        (decide + self.language * language).backward()
        return torch.stack([decide.detach(), language.detach()])

    def record(self, samples):
        """One graph a length; gradients are added to the parameters' own buffers."""
        for length, batch in samples.items():
            static = {n: v.clone() for n, v in batch.items()}
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.run(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                out = self.run(static)
            self.graphs[length] = graph, static, out
            torch.cuda.synchronize()

    def prepare(self, samples):
        if self.device.type != "cuda":
            return
        for compiled in ([True] if self.compiled else []) + [False]:
            try:
                network.fuse(compiled)
                self.graphs = {}
                self.record(samples)
                print(f"recorded {len(self.graphs)} graphs, compiled: {compiled}", flush=True)
                return
            except Exception:
                traceback.print_exc()
        network.fuse(False)
        self.graphs = {}

    def __call__(self, length, batch):
        if length not in self.graphs:
            return self.run(batch)
        graph, static, out = self.graphs[length]
        for n, v in batch.items():
            static[n].copy_(v)
        graph.replay()
        return out


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
    model.eval()
    found = {}
    for i, maker in enumerate(("scenarios", "facts", "fields", "words")):
        mixed.shares = [float(i == j) for j in range(4)]
        source = batches.Source(tokenize, mixed, 999_000 + i, 0)
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


def train(rank, world, args, tokenize, mixed, began):
    feed = Feed(args, tokenize, mixed, rank)  # forks before the GPU is touched
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    if world > 1:
        torch.distributed.init_process_group("nccl", init_method=f"file://{args.out}/meeting", rank=rank, world_size=world)
    torch.manual_seed(args.seed)
    model = Clef().to(device)
    if args.start:
        weights.load(model, args.start, backbone_only=args.new_head)
    torch.manual_seed(args.seed + 100 * rank)
    opt = Optimiser(model, args.matrix_rate, args.rate)
    say = print if rank == 0 else (lambda *a, **k: None)
    say(f"parameters {opt.flat.numel()}, {world} x {device.type}, ready after {time.time() - began:.1f} s", flush=True)
    samples = {}
    while on_gpu and len(samples) < len(batches.LENGTHS):
        length, batch = feed.raw.get()
        samples[length] = batches.to_device(batch, device)
    steps = Steps(model, args.language, device, args.compile)
    steps.prepare(samples)
    say(f"prepared after {time.time() - began:.1f} s", flush=True)
    feed.start(device)
    start = time.time()
    limit = args.seconds - (start - began)
    seen = records = step = 0
    share, sums, count, saved = 0.0, torch.zeros(2, device=device), 0, start
    while step < args.steps and share < 1:
        length, batch = feed.ready.get()
        if args.profile and rank == 0 and step == 100:
            profiler = torch.profiler.profile()
            profiler.__enter__()
        if args.profile and rank == 0 and step == 103:
            profiler.__exit__(None, None, None)
            print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=30, max_name_column_width=70), flush=True)
        opt.grad.zero_()
        sums += steps(length, batch)
        count += 1
        if step % 10 == 0:
            opt.grad[-1] = (time.time() - start) / limit if args.steps == 10**9 else step / args.steps
        if world > 1:
            torch.distributed.all_reduce(opt.grad)
            opt.grad.div_(world)
        if step % 10 == 0:
            share = opt.grad[-1].item()
        norm = opt.step(rate_at(share, args.flat))
        step += 1
        seen += batch["ids"].numel() * world
        records += batch["ids"].shape[0] * world
        if step in (1, 10, 50) or step % 250 == 0:
            decide, language = (sums / count).tolist()
            say(f"step {step} {time.time() - start:.1f} s, {seen / 1e6:.1f} M tokens, {records} records, loss {decide:.4f}, language {language:.3f}, grad {float(norm):.2f}, queue {feed.raw.qsize() if on_gpu else 0}/{feed.ready.qsize()}", flush=True)
            sums.zero_()
            count = 0
        if rank == 0 and time.time() - saved > 60:
            weights.save(model, args.out)
            saved = time.time()
    feed.stop()
    if rank:
        os._exit(0)
    weights.save(model, args.out)
    spent = time.time() - start
    say(f"trained {step} steps, {seen} padded tokens, {records} records in {spent:.1f} s", flush=True)
    network.fuse(False)
    weights.load(model, args.out)  # what is measured is what is written: values rounded to BF16
    report, failed = evaluate(model, tokenize, args.heldout, device)
    report["training"] = {"steps": step, "padded_tokens": seen, "records": records, "seconds": round(spent, 1), "gpus": world}
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    (args.out / "failures.json").write_text(json.dumps(failed, ensure_ascii=False, indent=0))
    report["generators"] = generators(model, tokenize, mixed, device)
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report), flush=True)
    os._exit(0)


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    tokenize = bpe.Tokenizer(args.tokenizer)
    mixed = mixture.Mixture(args.wordnet, args.valences)
    world = len([n for n in os.listdir("/dev") if n.startswith("nvidia") and n[6:].isdigit()]) or 1
    others = [multiprocessing.get_context("fork").Process(target=train, args=(r, world, args, tokenize, mixed, began)) for r in range(1, world)]
    for p in others:
        p.start()
    train(0, world, args, tokenize, mixed, began)


if __name__ == "__main__":
    main()
