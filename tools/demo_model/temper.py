"""Divides a snapshot's logits by the temperature that makes the answers to unseen texts and situations likeliest: the head's scales take it in.

    python3 temper.py SNAPSHOT OUT UNSEEN [REPORT]

UNSEEN is train.py's unseen.json: its answers to records of the twentieth that is held back. With a REPORT its figures of the hand-written requests
are measured anew, since score errors and calibration change. None of them settles the temperature.
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


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Clef().to(device)
    weights.load(model, source)
    model.eval()
    tokenize, texts = bpe.Tokenizer(source / "tokenizer.json"), Path(__file__).parent.parent.parent / "tests/demo"
    found = json.loads(Path(sys.argv[3]).read_text())
    before = train.unseen_figures(found)
    # Never sharper than trained: others will ask about what is less like the training than these records are.
    best = min((round(1.0 + 0.02 * i, 2) for i in range(100)), key=lambda t: train.unseen_figures(found, t)["surprise"])
    after = train.unseen_figures(found, best)
    print(f"temperature {best}; unseen {before} -> {after}")
    with torch.no_grad():
        head = model.head
        head.prior_logit_scale -= math.log(best)
        head.joint_logit_scale -= math.log(best)
        head.residual_scorer["3"].weight /= best
        head.residual_scorer["3"].bias /= best
    if out != source:
        shutil.copytree(source, out, dirs_exist_ok=True)
    weights.save(model, out)
    if len(sys.argv) > 4:
        weights.load(model, out)  # what is measured is what is written
        report = json.loads(Path(sys.argv[4]).read_text())
        report |= train.evaluate(model, tokenize, [texts / f"{n}.txt" for n in ("dev", "heldout", "freestyle")], device)[0]
        report |= {"temperature": best, "unseen_untempered": before, "unseen": after}
        Path(sys.argv[4]).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
