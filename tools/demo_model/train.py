"""Trains the demo model for a given time on one GPU (or a few steps on a CPU), measures it, writes its weights.

    python3 train.py --tokenizer tokenizer.json --valences afinn/index.js --corpora corpora.jsonl.xz --out OUT --seconds 300

A training may be cut into spans: `--from-share 0.3 --to-share 0.6 --start LAST/snapshot` goes on in the middle of the whole run's
schedule. SIGTERM ends a span early; what it has is saved and measured.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import multiprocessing
import os
import queue
import shutil
import signal
import threading
import time
import traceback
from collections import deque
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
AHEAD = 8  # steps that may wait on the device


def arguments():
    p = argparse.ArgumentParser()
    p.add_argument("--tokenizer", type=Path, required=True)
    p.add_argument("--wordnet", type=Path, default=Path("/usr/share/wordnet"))
    p.add_argument("--valences", type=Path)
    p.add_argument("--corpora", type=Path, help="texts of public datasets, by extract_corpora.py")
    p.add_argument("--heldout", type=Path, default=HERE.parent.parent / "tests/demo")
    p.add_argument("--out", type=Path, required=True, help="OUT/snapshot is kept up to date; report.json and failures.json come at the end")
    p.add_argument("--start", type=Path, help="a snapshot to go on from")
    p.add_argument("--vectors", type=Path, help="first embeddings, by vectors.py, of a training without --start")
    p.add_argument("--new-head", action="store_true", help="take only the backbone from --start")
    p.add_argument("--seconds", type=float, default=300, help="of the whole program, measuring left out")
    p.add_argument("--steps", type=int, default=10**9)
    p.add_argument("--from-share", type=float, default=0.0, help="how much of the whole training is done")
    p.add_argument("--to-share", type=float, default=1.0, help="how much will be done after this span")
    p.add_argument("--tokens", type=int, default=49152, help="padded tokens a batch and GPU")
    p.add_argument("--matrix-rate", type=float, default=4e-3)
    p.add_argument("--rate", type=float, default=2e-3)
    p.add_argument("--flat", type=float, default=0.66, help="share of the whole training before the rates fall")
    p.add_argument("--rewarm", type=int, default=100, help="first steps of a span, over which the rates rise")
    p.add_argument("--language", type=float, default=0.05, help="weight of the next-token loss")
    p.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 6))
    p.add_argument("--world", type=int, default=1, help="GPUs, of those that CUDA_VISIBLE_DEVICES shows")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save-every", type=float, default=30, help="seconds between two saved snapshots")
    p.add_argument("--measure-every", type=float, default=60, help="seconds between two looks at dev.txt")
    p.add_argument("--compile", action="store_true", help="fuse elementwise pieces; TORCHINDUCTOR_CACHE_DIR keeps them for the next span")
    p.add_argument("--profile", action="store_true", help="show where three steps' time goes")
    return p.parse_args()


def worker(tokenize, mixed, seed, tokens, fresh, out):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the parent ends its workers itself
    torch.set_num_threads(1)
    if fresh:
        mixed.shares = mixture.FIRST_SHARES
    source = batches.Source(tokenize, mixed, seed, tokens)
    for batch in source:
        if source.made > mixture.FIRST_RECORDS:
            mixed.shares = mixture.SHARES
        out.put(batch)


class Feed:
    """Batches from worker processes, moved to the device ahead of their use on a stream of their own."""

    def __init__(self, args, tokenize, mixed, rank):
        context = multiprocessing.get_context("fork")
        self.raw = context.Queue(maxsize=64)
        seed = args.seed * 10**6 + round(args.from_share * 1000) * 1000 + rank * 100
        self.processes = [context.Process(target=worker, args=(tokenize, mixed, seed + i, args.tokens, args.from_share == 0, self.raw), daemon=True) for i in range(args.workers)]
        for p in self.processes:
            p.start()
        self.ready = queue.Queue(maxsize=AHEAD)

    def start(self, device):
        def move():
            if device.type == "cuda":
                torch.cuda.set_device(device)  # a thread's own
            stream = torch.cuda.Stream() if device.type == "cuda" else None
            while True:
                length, batch = self.raw.get()
                if stream:
                    with torch.cuda.stream(stream):
                        batch = batches.to_device(batch, device)
                    stream.synchronize()
                else:
                    batch = batches.to_device(batch, device)
                self.ready.put((length, batch))

        threading.Thread(target=move, daemon=True).start()

    def stop(self):
        for p in self.processes:
            p.kill()


def losses(model, batch, picks=24):
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
        """One graph a length; gradients are added to the parameters' own buffers. One runs at a time, so they share memory."""
        pool = torch.cuda.graph_pool_handle()
        for length, batch in samples.items():
            static = {n: v.clone() for n, v in batch.items()}
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.run(static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
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
    """By the share of the whole training: a rise, a plain, and a fall to zero."""
    if share < 0.01:
        return max(0.02, share / 0.01)
    return 1.0 if share < flat else max(0.0, (1 - share) / (1 - flat))


@torch.no_grad()
def answers(model, tokenize, requests, device, together=160):
    """For each request {question id: [(option id, probability)]}, in order."""
    encoded = [prompt.encode(tokenize, r["state"], r["questions"]) for r in requests]
    for at in range(0, len(requests), together):
        part = encoded[at : at + together]
        probabilities = model(batches.to_device(batches.collate([batches.arrays(e) for e in part]), device))[0].exp().cpu().tolist()
        for request, e, row in zip(requests[at:], part, probabilities):
            names, found = list(request["questions"]), {qid: [] for qid in request["questions"]}
            for (n, name, _, _), p in zip(e["options"], row):
                found[names[n]].append((name, p))
            yield found


def evaluate(model, tokenize, paths, device):
    """Figures and failures of each file. Plain functions: compiling for its odd shapes would take longer than it runs."""
    fused = dict(network.FUSED)
    network.fuse(False)
    model.eval()
    report, failed = {}, {}
    for path in paths:
        cases = heldout.read(path)
        found = answers(model, tokenize, [r for r, _ in cases], device)
        report[path.stem], failed[path.stem] = heldout.measure(cases, lambda r: next(found))
    model.train()
    network.FUSED.update(fused)
    return report, failed


@torch.no_grad()
def generators(model, tokenize, mixed, device, count=200):
    """Accuracy on fresh records of each generator."""
    model.eval()
    found = {}
    for i, maker in enumerate(mixture.NAMES):
        mixed.shares = [float(i == j) for j in range(len(mixture.NAMES))]
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


UNSEEN_SURE = 0.8  # questions whose right answer is plain


def held_back(tokenize, mixed, count: int):
    """Encoded records of texts and situations that are never trained."""
    unseen = mixed.unseen()
    if unseen is None:
        return []
    source = batches.Source(tokenize, unseen, 998_000, 0)
    return [source.encoded() for _ in range(count)]


@torch.no_grad()
def unseen_answers(model, items, device):
    """[(probabilities, index of the right option)] of the yes or no and choice questions."""
    fused = dict(network.FUSED)
    network.fuse(False)
    model.eval()
    found = []
    for at in range(0, len(items), 50):
        part = items[at : at + 50]
        logp = model(batches.to_device(batches.collate(part), device))[0].float().exp().cpu().tolist()
        for (_, _, types, _, owner, target, _), row in zip(part, logp):
            for n, kind in enumerate(types):
                options = [k for k, o in enumerate(owner) if o == n]
                best = max(options, key=lambda k: target[k])
                if kind != prompt.TYPES["score"] and target[best] >= UNSEEN_SURE:
                    found.append(([round(row[k], 6) for k in options], options.index(best)))
    model.train()
    network.FUSED.update(fused)
    return found


def unseen_figures(found, temperature: float = 1.0) -> dict:
    """Accuracy, calibration error in ten bins, and mean surprise."""
    bins, surprise, hits = [[] for _ in range(10)], 0.0, 0
    for p, right in found:
        logits = [math.log(max(x, 1e-9)) / temperature for x in p]
        every = math.log(sum(map(math.exp, logits)))
        p = [math.exp(l - every) for l in logits]
        best = max(range(len(p)), key=p.__getitem__)
        hits += best == right
        surprise += every - logits[right]
        bins[min(9, int(p[best] * 10))].append((p[best], best == right))
    count = max(1, len(found))
    ece = sum(abs(sum(p for p, _ in b) - sum(h for _, h in b)) for b in bins) / count
    return {"questions": len(found), "right": round(hits / count, 4), "ece": round(ece, 4), "surprise": round(surprise / count, 4)}


def save(model, opt, args, progress: dict):
    """The averaged weights as OUT/snapshot; a reader sees the old folder or the new one."""
    part, old, final = args.out / "snapshot.part", args.out / "snapshot.old", args.out / "snapshot"
    shutil.rmtree(part, ignore_errors=True)
    opt.swap()
    weights.save(model, part, args.tokenizer)
    opt.swap()
    (part / "progress.json").write_text(json.dumps(progress))
    if final.exists():
        final.rename(old)
    part.rename(final)
    shutil.rmtree(old, ignore_errors=True)


def train(rank, world, args, tokenize, mixed, began):
    feed = Feed(args, tokenize, mixed, rank)  # forks before the GPU is touched
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", rank) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
        torch.backends.cuda.matmul.allow_tf32 = True  # the delta rule's products, which autocast leaves in float32
    if world > 1:
        torch.distributed.init_process_group("nccl", init_method=f"file://{args.out}/meeting", rank=rank, world_size=world)
    torch.manual_seed(args.seed)
    model = Clef().to(device)
    if args.start:
        weights.load(model, args.start, backbone_only=args.new_head)
    elif args.vectors:
        with torch.no_grad():
            for table in (model.backbone.embed_tokens, model.lm_head):
                table.weight.copy_(weights.read(args.vectors)["vectors"])
    torch.manual_seed(args.seed + 100 * rank + round(args.from_share * 1000) * 1000)
    opt = Optimiser(model, args.matrix_rate, args.rate)
    say = print if rank == 0 else (lambda *a, **k: None)
    held = held_back(tokenize, mixed, 400 if on_gpu else 8) if rank == 0 else []
    say(f"parameters {opt.flat.numel()}, {world} x {device.type}, {args.workers} workers, ready after {time.time() - began:.1f} s", flush=True)
    samples = {}
    while on_gpu and len(samples) < len(batches.LENGTHS):
        length, batch = feed.raw.get()
        samples[length] = batches.to_device(batch, device)
    steps = Steps(model, args.language, device, args.compile)
    steps.prepare(samples)
    opt.grad.zero_()
    if on_gpu:
        try:
            opt.record()
        except Exception:
            traceback.print_exc()
    say(f"prepared after {time.time() - began:.1f} s", flush=True)
    (args.out / "prepared").touch()
    feed.start(device)
    start = said = saved = measured = time.time()
    limit = args.seconds - (start - began)
    seen = records = step = told = 0
    share, sums, count = args.from_share, torch.zeros(2, device=device), 0
    behind, kept = deque(), deque(maxlen=4 * AHEAD)  # events of steps under way; their batches, which another stream allocated
    progress = lambda: {"share": round(share, 4), "steps": step, "padded_tokens": seen, "records": records, "seconds": round(time.time() - start, 1)}
    over = False
    while step < args.steps and not over:
        length, batch = feed.ready.get()
        kept.append(batch)
        if args.profile and rank == 0 and step == 100:
            profiler = torch.profiler.profile()
            profiler.__enter__()
        if args.profile and rank == 0 and step == 103:
            profiler.__exit__(None, None, None)
            print(profiler.key_averages().table(sort_by="self_cuda_time_total", row_limit=40, max_name_column_width=70), flush=True)
        sums += steps(length, batch)
        count += 1
        done = (time.time() - start) / limit if args.steps == 10**9 else step / args.steps
        share = args.from_share + (args.to_share - args.from_share) * done
        over = share >= args.to_share or bool(stopping)
        if world > 1:  # the clock travels with the gradients, so that all stop at one step
            opt.grad[-1] = 1e6 if over else 0.0
            torch.distributed.all_reduce(opt.grad)
            opt.grad.div_(world)
            over = step % 10 == 0 and opt.grad[-1].item() > 0
        opt.step(rate_at(share, args.flat) * min(1.0, (step + 1) / args.rewarm))
        step += 1
        seen += batch["ids"].numel() * world
        records += batch["ids"].shape[0] * world
        if on_gpu:
            behind.append(torch.cuda.Event())
            behind[-1].record()
            if len(behind) > AHEAD:
                behind.popleft().synchronize()
        now = time.time()
        if rank or (now - said < 10 and step not in (1, 10)):
            continue
        decide, language = (sums / count).tolist()
        say(f"step {step} {now - start:.1f} s, share {share:.3f}, {seen / 1e6:.1f} M tokens, {(seen - told) / max(1e-3, now - said) / 1e3:.0f} k/s, {records} records, "
            f"loss {decide:.4f}, language {language:.3f}, grad {opt.norm.item():.2f}, queue {feed.raw.qsize()}/{feed.ready.qsize()}", flush=True)
        sums.zero_()
        said, told, count = now, seen, 0
        if now - measured > args.measure_every:
            opt.swap()
            report, _ = evaluate(model, tokenize, [args.heldout / "dev.txt"], device)
            unseen = unseen_figures(unseen_answers(model, held, device))
            opt.swap()
            say("dev: " + ", ".join(f"{n} {report['dev'][n]:.3f}" for n in ("noul", "choice", "score_error", "ece")) + f"; unseen: right {unseen['right']:.3f}, ece {unseen['ece']:.3f}", flush=True)
            measured = time.time()
        if now - saved > args.save_every:
            save(model, opt, args, progress())
            saved = time.time()
    feed.stop()
    if rank:
        os._exit(0)
    share = min(share, args.to_share)
    spent = progress()
    save(model, opt, args, spent)
    say(f"trained: {spent}", flush=True)
    network.fuse(False)
    weights.load(model, args.out / "snapshot")  # what is measured is what is written: values rounded to BF16
    report, failed = evaluate(model, tokenize, [args.heldout / f"{n}.txt" for n in ("dev", "heldout", "freestyle")], device)
    answered = unseen_answers(model, held_back(tokenize, mixed, 3000 if on_gpu else 8), device)
    (args.out / "unseen.json").write_text(json.dumps(answered))  # temper.py fits by these
    report["unseen"] = unseen_figures(answered)
    report["training"] = spent
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    (args.out / "failures.json").write_text(json.dumps(failed["dev"], ensure_ascii=False, indent=0))  # the other sets' failures are not looked at
    report["generators"] = generators(model, tokenize, mixed, device, 200 if on_gpu else 4)
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report), flush=True)
    os._exit(0)


def main():
    args = arguments()
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.time()
    tokenize = bpe.Tokenizer(args.tokenizer)
    mixed = mixture.Mixture(args.wordnet, args.valences, args.corpora)
    gc.freeze()  # the workers share these objects; collecting them again and again would copy every page
    others = [multiprocessing.get_context("fork").Process(target=train, args=(r, args.world, args, tokenize, mixed, began)) for r in range(1, args.world)]
    for p in others:
        p.start()
    train(0, args.world, args, tokenize, mixed, began)


if __name__ == "__main__":
    main()
