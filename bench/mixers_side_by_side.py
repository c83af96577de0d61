"""Our attention and DeltaNet kernels beside cuDNN's and flash-linear-attention's, on one card in one run.

    python3 mixers_side_by_side.py TESTS [--rounds N] [--only delta_net|attention] [TOKENS ...]

On a fresh machine Triton compiles fla's kernels first, which takes more than a minute; stopped by SIGTERM, as timeout(1)
does, it shows the rounds that it has.

TESTS holds attention_device and delta_net_device (build/tests). Needs torch; flash-linear-attention (fla >= 0.5) for
DeltaNet. One sequence, random values, sizes of Clef-Flash. The sides take turns: in each round our program times all
lengths, then torch all lengths, either after a quarter of a second of the same work; printed are medians over the rounds,
with the least and the largest. All are times of replayed CUDA graphs, so that no side pays for its host; `eager` beside
them is what a call from Python takes.

DeltaNet, 16 key and 32 value heads of 128:
  ours chunks   both passes over chunks in FP16, q and k being unit vectors, the gates' sigmoid and softplus included
  ours + conv   and the convolution with SiLU before it, which normalises q and k
  ours layer    and the gated RMSNorm after it
  fla           chunk_gated_delta_rule in BF16 as transformers calls it: beta and g given, use_qk_l2norm_in_kernel,
                no initial state, no cu_seqlens; of 16 key heads where this fla takes them, else repeated to 32 before
  fla unit      the same without the normalisation, on unit vectors: what `ours chunks` does but for the gates
  ratio         ours chunks / the faster of the two: below 1 ours is faster
FlashInfer's prefill is not run here; docs/speed.md has its published figures.

Attention, 16 query and 4 key heads of 256, causal:
  ours          in FP16, multiplied by the sigmoid of its gate
  cuDNN         scaled_dot_product_attention with CUDNN_ATTENTION and enable_gqa in FP16, without the gate
"""

import argparse
import re
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LENGTHS = [346, 1382, 4510, 8192, 16347]
WARM_UP_S = 0.25
KEY_HEADS, VALUE_HEADS, DIM = 16, 32, 128


def events_ms(call, launches, runs):
    """The median over runs of a call's milliseconds, launches calls a run."""
    times = []
    for _ in range(runs):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(launches):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / launches)
    return statistics.median(times)


class Torch:
    """A call of torch's, captured once as a graph of ten; times() warms up and measures the graph and the call itself."""

    IN_GRAPH = 10

    def __init__(self, call):
        self.call, self.graph = call, None
        for _ in range(3):  # kernels are compiled and chosen now
            call()
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(self.IN_GRAPH):
                    call()
            self.graph = graph
        except Exception as error:
            torch.cuda.synchronize()
            print(f"no CUDA graph, eager times count: {str(error)[:100]}", file=sys.stderr)

    def times(self):
        start = time.monotonic()
        while time.monotonic() - start < WARM_UP_S:
            self.call()
            torch.cuda.synchronize()
        eager = events_ms(self.call, 4, 10)
        if self.graph is None:
            return eager, eager
        self.graph.replay()
        return events_ms(self.graph.replay, 1, 5) / self.IN_GRAPH, eager


def attention_call(tokens):
    def make(heads):
        return torch.randn(1, tokens, heads, 256, device="cuda", dtype=torch.float16).transpose(1, 2)

    q, k, v = make(16), make(4), make(4)

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    return call


def delta_net_calls(tokens, chunk_gated_delta_rule):
    """The call with and without normalisation, and how many key heads they are of."""

    def make(heads):
        return torch.randn(1, tokens, heads, DIM, device="cuda", dtype=torch.bfloat16)

    q, k, v = make(KEY_HEADS), make(KEY_HEADS), make(VALUE_HEADS)
    beta = torch.randn(1, tokens, VALUE_HEADS, device="cuda", dtype=torch.bfloat16).sigmoid()
    rate = torch.exp(-4 + 5 * torch.rand(VALUE_HEADS, device="cuda"))
    g = -rate * F.softplus(torch.randn(1, tokens, VALUE_HEADS, device="cuda"))

    def rule(q, k, normalise):
        return chunk_gated_delta_rule(
            q, k, v, g=g, beta=beta, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=normalise
        )[0]

    repeated = [x.repeat_interleave(VALUE_HEADS // KEY_HEADS, dim=2) for x in (q, k)]
    want = rule(*repeated, True).float()
    try:
        got = rule(q, k, True).float()
        grouped = got.shape == want.shape and bool((got - want).norm() < 0.01 * want.norm())
    except Exception:
        torch.cuda.synchronize()
        grouped = False
    q, k = (q, k) if grouped else repeated
    unit_q, unit_k = (F.normalize(x.float(), dim=-1).to(x.dtype) for x in (q, k))
    return lambda: rule(q, k, True), lambda: rule(unit_q, unit_k, False), q.shape[2]


def ours(command, pattern, lengths):
    """{tokens: the numbers that the pattern finds} of one run of our program."""
    output = subprocess.run([*command, *map(str, lengths)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    found = {int(m[1]): [float(x) for x in m.groups()[1:]] for m in re.finditer(pattern, output)}
    if set(found) != set(lengths):
        sys.exit(f"{command[0]}: unexpected output:\n{output}")
    return found


def spread(values):
    """The median with the least and the largest."""
    return f"{statistics.median(values):8.4f} ({min(values):.4f} to {max(values):.4f})"


def compare(title, columns, rounds, lengths, round_of, ratio):
    """round_of() gives {tokens: a number for each column}; ratio(medians) is what the last column shows."""
    samples = {tokens: [] for tokens in lengths}
    done = 0
    try:
        while done < rounds:
            rows = round_of()
            for tokens in lengths:
                samples[tokens].append(rows[tokens])
            done += 1
            print(f"{title}: round {done} of {rounds}", file=sys.stderr, flush=True)
    finally:  # what was measured is shown even if there is no time for the rest
        if done > 0:
            show(title, columns, done, samples, ratio)


def show(title, columns, rounds, samples, ratio):
    print(f"\n{title}, ms: medians of {rounds} rounds (least to largest)")
    print(f"{'tokens':>7}" + "".join(f"{name:>29}" for name in columns) + f"{'ratio':>8}")
    for tokens, rows in samples.items():
        series = list(zip(*rows))
        medians = dict(zip(columns, map(statistics.median, series)))
        print(f"{tokens:7d}" + "".join(f"{spread(s):>29}" for s in series) + f"{ratio(medians):8.3f}", flush=True)


def compare_attention(tests, rounds, lengths):
    theirs = {tokens: Torch(attention_call(tokens)) for tokens in lengths}

    def round_of():
        mine = ours([tests / "attention_device", "tokens"], r"attention (\d+) tokens: ([\d.]+) ms", lengths)
        return {tokens: [*mine[tokens], *theirs[tokens].times()] for tokens in lengths}

    columns = ["ours", "cuDNN", "cuDNN eager"]
    compare(f"attention, cuDNN {torch.backends.cudnn.version()}", columns, rounds, lengths, round_of,
            lambda ms: ms["ours"] / ms["cuDNN"])


def compare_delta_net(tests, rounds, lengths):
    import fla
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule

    theirs, heads = {}, set()
    for tokens in lengths:
        called, unit, key_heads = delta_net_calls(tokens, chunk_gated_delta_rule)
        theirs[tokens] = Torch(called), Torch(unit)
        heads.add(key_heads)

    def round_of():
        number = r" ([\d.]+)"
        pattern = rf"delta_net (\d+) tokens: chunks{number} with convolution{number} layer{number} ms"
        mine = ours([tests / "delta_net_device", "--tokens"], pattern, lengths)
        rows = {}
        for tokens in lengths:
            (called, eager), (unit, _) = (side.times() for side in theirs[tokens])
            rows[tokens] = [*mine[tokens], called, unit, eager]
        return rows

    columns = ["ours chunks", "ours + conv", "ours layer", "fla", "fla unit", "fla eager"]
    compare(f"DeltaNet, fla {fla.__version__} with {'/'.join(map(str, sorted(heads)))} key heads", columns, rounds, lengths,
            round_of, lambda ms: ms["ours chunks"] / min(ms["fla"], ms["fla unit"]))


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", type=Path)
    parser.add_argument("tokens", type=int, nargs="*")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["delta_net", "attention"])
    args = parser.parse_intermixed_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    lengths = args.tokens or LENGTHS
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    if args.only != "attention":
        compare_delta_net(args.tests.resolve(), args.rounds, lengths)
    if args.only != "delta_net":
        compare_attention(args.tests.resolve(), args.rounds, lengths)


main()
