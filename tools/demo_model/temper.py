"""Divides a snapshot's logits by the root of the temperature that makes the answers of dev.txt likeliest: the head's scales take it in.

    python3 temper.py SNAPSHOT OUT [REPORT]

With a REPORT its figures of the hand-written requests are measured anew, since score errors and calibration change.
"""

from __future__ import annotations

import json
import math
import shutil
import sys
from pathlib import Path

import torch

import bpe
import heldout
import train
import weights
from model import Clef


def wanted(answer) -> dict[str, float]:
    """An answer as weights of options; a score between two levels counts for both."""
    if isinstance(answer, bool):
        return {"true" if answer else "false": 1.0}
    if isinstance(answer, float):
        low = math.floor(answer)
        return {str(low): low + 1 - answer, str(low + 1): answer - low}
    return {answer: 1.0}


def loss(found, temperature: float) -> float:
    """Mean surprise at the right answers."""
    total, count = 0.0, 0
    for answers, expected in found:
        for qid, want in expected.items():
            logits = {option: math.log(max(p, 1e-9)) / temperature for option, p in answers[qid]}
            every = math.log(sum(math.exp(l) for l in logits.values()))
            total += sum(w * (every - logits[name]) for name, w in wanted(want).items() if w)
            count += 1
    return total / count


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Clef().to(device)
    weights.load(model, source)
    model.eval()
    tokenize, texts = bpe.Tokenizer(source / "tokenizer.json"), Path(__file__).parent.parent.parent / "tests/demo"
    cases = heldout.read(texts / "dev.txt")
    found = list(zip(train.answers(model, tokenize, [r for r, _ in cases], device, 8), (a for _, a in cases)))
    # Never sharper than trained: the generators' situations are nearer to dev.txt than to what others will ask.
    fitted = min((round(1.0 + 0.05 * i, 2) for i in range(50)), key=lambda t: loss(found, t))
    best = round(math.sqrt(fitted), 2)  # half of it: dev.txt is small, and a high temperature draws scores to the middle
    print(f"temperature {best}, fitted {fitted}: {loss(found, 1.0):.4f} -> {loss(found, best):.4f}, fitted {loss(found, fitted):.4f}")
    with torch.no_grad():
        head = model.head
        head.prior_logit_scale -= math.log(best)
        head.joint_logit_scale -= math.log(best)
        head.residual_scorer["3"].weight /= best
        head.residual_scorer["3"].bias /= best
    if out != source:
        shutil.copytree(source, out, dirs_exist_ok=True)
    weights.save(model, out)
    if len(sys.argv) > 3:
        weights.load(model, out)  # what is measured is what is written
        report = json.loads(Path(sys.argv[3]).read_text())
        report |= train.evaluate(model, tokenize, [texts / f"{n}.txt" for n in ("dev", "heldout", "freestyle")], device)[0]
        report["temperature"] = best
        Path(sys.argv[3]).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
