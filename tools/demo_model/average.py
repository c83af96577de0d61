"""The mean of two snapshots of one training, weight by weight: often better than either, where the second went on from the first.

    python3 average.py FIRST SECOND SHARE OUT        OUT = (1 - SHARE) * FIRST + SHARE * SECOND
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import weights


def main():
    first, second, share, out = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), Path(sys.argv[4])
    shutil.copytree(first, out, dirs_exist_ok=True)
    for name in ("model.safetensors", "joint_head.safetensors"):
        a, b = weights.read(first / name), weights.read(second / name)
        if list(a) != list(b):
            raise ValueError(f"{second / name}: expected the tensors of {first / name}")
        weights.write(out / name, {n: (1 - share) * a[n].float() + share * b[n].float() for n in a})


if __name__ == "__main__":
    main()
