#!/usr/bin/env python3
"""How far cleffa's decisions, and those of transformers in BF16, are from the same network in FP32.

    bench/accuracy.py SNAPSHOT OUT.json [--bin build/release/bin] [--device cuda] [--clef-args=ARGS ...]

Requests of 150 to 16,000 tokens (accuracy_records.py) go through three: transformers in FP32 without TF32, the measure;
transformers in BF16, head included, as the reference runs by default; and clef, once for every --clef-args. All read the
token ids that clef-tool makes, and the two of PyTorch share the head (clef_reference.py). The table has a row a request: the
mean and the largest difference of a probability, and the decisions that differ where FP32's margin exceeds 1e-3; the JSON
has every probability too. --cache FILE keeps what PyTorch gave, so that another clef can be compared without it. With --fp64 the
measure is the network in FP64 (exact.py), and transformers in FP32 has a column beside the others.

Takes the memory of FP32 weights, 36 GB for Clef-Flash, and about 20 GB more at 16,000 tokens. --network plain takes the network
of tools/demo_model in place of transformers': for small models where there is no transformers.
"""

import argparse
import hashlib
import json
import math
import shlex
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools" / "demo_model")]
sys.dont_write_bytecode = True

import accuracy_records  # noqa: E402

CLEAR = 1e-3  # a margin between the two best options that a decision should keep


def say(text: str):
    print(f"accuracy: {text}", file=sys.stderr, flush=True)


class Transformers:
    """The text backbone as transformers builds it; weights go from BF16 to FP32 without loss, where they lie."""

    def __init__(self, snapshot: Path, device: str):
        import torch
        import transformers
        from transformers import AttentionInterface, Qwen3_5ForConditionalGeneration

        transformers.utils.logging.disable_progress_bar()
        AttentionInterface.register("rows_in_fp32", self.attend)
        whole = Qwen3_5ForConditionalGeneration.from_pretrained(snapshot, dtype=torch.bfloat16, device_map={"": device}).eval()
        self.backbone, self.embedding = whole.model.language_model, whole.get_output_embeddings().weight

    @staticmethod
    def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **unused):
        """Causal softmax attention of plain products, a block of rows at a time: no fused kernel, whose products may be TF32."""
        import torch

        group, rows = query.shape[1] // key.shape[1], query.shape[2]
        out = torch.empty_like(query)
        place = torch.arange(rows, device=query.device)
        for h in range(query.shape[1]):
            k, v = key[0, h // group], value[0, h // group]
            for first in range(0, rows, 4096):
                last = min(rows, first + 4096)
                scores = (query[0, h, first:last] @ k[:last].T) * scaling
                scores.masked_fill_(place[first:last, None] < place[None, :last], float("-inf"))
                out[0, h, first:last] = scores.softmax(-1) @ v[:last]
        return out.transpose(1, 2).contiguous(), None

    def parameters(self):
        return list(self.backbone.parameters()) + [self.embedding]

    def hidden(self, ids, is_exact: bool):
        self.backbone.config._attn_implementation = "rows_in_fp32" if is_exact else "sdpa"
        return self.backbone(input_ids=ids[None], use_cache=False).last_hidden_state[0]


class Plain:
    """The network that tools/demo_model trains."""

    def __init__(self, snapshot: Path, device: str):
        import model
        import torch
        import weights

        text = json.loads((snapshot / "config.json").read_text())["text_config"]
        rope = text["rope_parameters"]
        self.backbone = model.Backbone(text | {"rotary": int(text["head_dim"] * rope["partial_rotary_factor"]), "rope_theta": rope["rope_theta"]})
        stored = {}
        for shard in sorted(snapshot.glob("model*.safetensors")):
            stored |= weights.read(shard)
        prefix = "model.language_model."
        self.backbone.load_state_dict({n[len(prefix) :]: t for n, t in stored.items() if n.startswith(prefix)})
        self.embedding = stored["lm_head.weight"].to(device)
        self.backbone.to(device).eval()

    def parameters(self):
        return list(self.backbone.parameters()) + [self.embedding]

    def hidden(self, ids, is_exact: bool):
        import torch

        padding = -len(ids) % 64  # whole chunks; what follows a token does not reach it
        return self.backbone(torch.nn.functional.pad(ids, (0, padding))[None])[0, : len(ids)]


def read_head(snapshot: Path, device: str, dtype):
    import weights

    return {name: t.to(device, dtype) for name, t in weights.read(snapshot / "joint_head.safetensors").items()}


def tf32_is_off(device: str):
    """A product of FP32 with TF32 inside is off by 1e-4, one without by less than 1e-6."""
    import torch

    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False  # convolutions
    torch.manual_seed(0)
    a, b = torch.randn(512, 512, device=device), torch.randn(512, 512, device=device)
    exact = a.double() @ b.double()
    error = ((a @ b).double() - exact).norm() / exact.norm()
    if error > 3e-6:
        raise SystemExit(f"FP32 products are off by {error:.1e}: expected TF32 to be off")


def run_torch(args, records: list) -> dict:
    """Probabilities of every question of every record: {"bf16": {"probabilities": [...], "seconds": s}, "fp32": ...}."""
    import clef_reference
    import exact
    import torch

    start = time.time()
    tf32_is_off(args.device)
    network = (Transformers if args.network == "transformers" else Plain)(args.snapshot, args.device)
    head_config = json.loads((args.snapshot / "joint_head_config.json").read_text())
    say(f"loaded the network in {time.time() - start:.0f} s")
    text_config = json.loads((args.snapshot / "config.json").read_text())["text_config"]
    results = {}
    runs = [("fp64", torch.float64)] if args.fp64 else []
    for name, dtype in runs + [("bf16", torch.bfloat16), ("fp32", torch.float32)]:  # the stored BF16 loses nothing as FP32
        start = time.time()
        if name != "fp64":  # which widens a layer at a time
            for parameter in network.parameters():
                parameter.data = parameter.data.to(dtype)
        head, embedding = read_head(args.snapshot, args.device, dtype), network.embedding.to(dtype)
        weights = dict(network.backbone.named_parameters())
        probabilities = []
        with torch.inference_mode():
            for record in records:
                ids = torch.tensor(record["input_ids"], device=args.device)
                hidden = exact.hidden(weights, text_config, ids) if name == "fp64" else network.hidden(ids, name == "fp32")
                logits = clef_reference.head_logits(head, head_config, hidden, ids, record["questions"], embedding)
                probabilities.append([logit.double().softmax(-1).tolist() for logit in logits])
        results[name] = {"probabilities": probabilities, "seconds": time.time() - start}
        say(f"{name}: {len(records)} records in {results[name]['seconds']:.1f} s")
    if args.device != "cpu":
        say(f"PyTorch took {torch.cuda.max_memory_allocated() / 1e9:.1f} GB at most")
        del network, weights, head, embedding, hidden, logits, parameter
        torch.cuda.empty_cache()  # clef wants room
    return results


def softmax(values: list) -> list:
    most = max(values)
    powers = [math.exp(v - most) for v in values]
    return [p / sum(powers) for p in powers]


def run_clef(args, flags: str, requests: list, records: list) -> dict:
    command = [str(args.bin / "clef"), "-m", str(args.snapshot), "--device", args.device, "--logits", "--format", "json", *shlex.split(flags)]
    start = time.time()
    done = subprocess.run(command, input="".join(json.dumps(r) + "\n" for r in requests), capture_output=True, text=True)
    if done.stderr:
        say(done.stderr.strip())
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode != 0 or len(lines) != len(requests) or any("error" in line for line in lines):
        errors = [line["error"] for line in lines if "error" in line]
        raise SystemExit(f"{shlex.join(command)}: exit status {done.returncode}, {len(lines)} of {len(requests)} answers: {errors[:3]}")
    probabilities = []
    for line, record in zip(lines, records):
        assert line["usage"]["input_tokens"] == len(record["input_ids"])
        probabilities.append([softmax([line["x_logits"][q["id"]][option] for option in q["option_ids"]]) for q in record["questions"]])
    return {"probabilities": probabilities, "seconds": time.time() - start}


def compare(exact: list, other: list) -> dict:
    """Of one record: lists of probabilities, a list a question."""
    differences = [abs(p - q) for e, o in zip(exact, other) for p, q in zip(e, o)]
    flips = 0
    for e, o in zip(exact, other):
        best = sorted(e)[-2:]
        if best[-1] - best[0] > CLEAR and e.index(max(e)) != o.index(max(o)):
            flips += 1
    return {"sum": sum(differences), "count": len(differences), "mean": sum(differences) / len(differences), "max": max(differences), "flips": flips}


def spread(exact: list) -> dict:
    """How decided FP32 is: 1 / options is no decision, 1 is all of it."""
    top = [max(p) for p in exact]
    even = [1 / len(p) for p in exact]
    return {"top": sum(top) / len(top), "above_even": sum(t - e for t, e in zip(top, even)) / len(top), "saturated": sum(t > 0.999 for t in top)}


def report(records: list, results: dict) -> dict:
    """Prints the table; the same as a value. The first result is what the others are held to."""
    measure, *systems = results
    exact = results[measure]["probabilities"]
    print(f"{'':27}{measure:>13}" + "".join(f" | {name[:30]:>30}" for name in systems))
    print(f"{'tokens':>7}{'questions':>10}{'options':>10}{'top p':>7}{'>even':>6}" + "".join(f" | {'mean |dp|':>10}{'max |dp|':>11}{'flips':>9}" for _ in systems))
    rows = []
    for i, record in enumerate(records):
        row = {"tokens": len(record["input_ids"]), "questions": len(exact[i]), "options": sum(len(p) for p in exact[i]), "spread": spread(exact[i])}
        row |= {name: compare(exact[i], results[name]["probabilities"][i]) for name in systems}
        rows.append(row)
        print(f"{row['tokens']:7}{row['questions']:10}{row['options']:10}{row['spread']['top']:7.3f}{row['spread']['above_even']:6.3f}" + "".join(f" | {row[n]['mean']:10.2e}{row[n]['max']:11.2e}{row[n]['flips']:9}" for n in systems))
    clear = sum(sorted(p)[-1] - sorted(p)[-2] > CLEAR for record in exact for p in record)
    total = {"questions": sum(r["questions"] for r in rows), "clear": clear, "saturated": sum(r["spread"]["saturated"] for r in rows)}
    for n in systems:
        total[n] = {"mean": sum(r[n]["sum"] for r in rows) / sum(r[n]["count"] for r in rows), "max": max(r[n]["max"] for r in rows), "flips": sum(r[n]["flips"] for r in rows), "seconds": results[n]["seconds"]}
    print(f"{'all':>7}{total['questions']:10}{sum(r['options'] for r in rows):10}{'':13}" + "".join(f" | {total[n]['mean']:10.2e}{total[n]['max']:11.2e}{total[n]['flips']:9}" for n in systems))
    print(f"{clear} of {total['questions']} questions have a margin above {CLEAR:g} in {measure}, {total['saturated']} a probability above 0.999")
    return {"records": rows, "total": total}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--bin", type=Path, default=HERE.parent / "build" / "release" / "bin", help="folder of clef and clef-tool")
    parser.add_argument("--device", default="cuda", help="of PyTorch and of clef: cuda, cuda:N or cpu")
    parser.add_argument("--clef-args", action="append", metavar="ARGS", help="further arguments of clef, one string; again for another column")
    parser.add_argument("--network", choices=["transformers", "plain"], default="transformers")
    parser.add_argument("--fp64", action="store_true", help="hold all to FP64")
    parser.add_argument("--tokens", type=int, nargs="+", default=accuracy_records.LENGTHS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cache", type=Path, help="file for what PyTorch gave; read if it is of the same requests and weights")
    args = parser.parse_args()

    requests, records = accuracy_records.make(str(args.bin / "clef-tool"), str(args.snapshot), args.tokens, args.seed)
    index = args.snapshot / "model.safetensors.index.json"
    what = json.dumps([requests, [r["input_ids"] for r in records], args.network, (args.snapshot / "config.json").read_text(), index.read_text() if index.exists() else ""])
    key = hashlib.sha256(what.encode()).hexdigest()
    kept = json.loads(args.cache.read_text()) if args.cache and args.cache.exists() else {}
    if kept.get("key") == key and ("fp64" in kept or not args.fp64):
        say(f"PyTorch's probabilities are those of {args.cache}")
    else:
        kept = {"key": key, **run_torch(args, records)}
        if args.cache:
            args.cache.write_text(json.dumps(kept))
    results = {"FP64": kept["fp64"], f"{args.network} FP32": kept["fp32"]} if args.fp64 else {"FP32": kept["fp32"]}
    results[f"{args.network} BF16"] = kept["bf16"]
    for flags in args.clef_args or [""]:
        results[f"clef {flags}".strip()] = run_clef(args, flags, requests, records)
        say(f"clef {flags}: {list(results.values())[-1]['seconds']:.1f} s with loading")
    table = report(records, results)
    args.out.write_text(json.dumps({"snapshot": str(args.snapshot), "seed": args.seed, **table, "results": results}))


if __name__ == "__main__":
    main()
