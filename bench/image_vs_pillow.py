#!/usr/bin/env python3
"""A picture to patches: clef-bench beside Pillow and NumPy in the same run, CPU time of one thread, medians.

    bench/image_vs_pillow.py build/release/bin/clef-bench FILE [FILE ...]

Pillow decodes and resizes (bicubic; by other weights than the reference's, see docs/accuracy.md), NumPy cuts into patches
of float32 as the reference's processor does. Needs python3-pil, and python3-numpy for the patches.
"""

import io
import math
import statistics
import subprocess
import sys
import time

from PIL import Image

try:
    import numpy
except ImportError:
    numpy = None

RUNS = 21


def smart_resize(height, width, least=65536, most=16777216, factor=32):
    h, w = round(height / factor) * factor, round(width / factor) * factor
    if h * w > most:
        b = math.sqrt(height * width / most)
        h, w = (max(factor, math.floor(x / b / factor) * factor) for x in (height, width))
    elif h * w < least:
        b = math.sqrt(least / (height * width))
        h, w = (math.ceil(x * b / factor) * factor for x in (height, width))
    return h, w


def patches(image):
    pixels = (numpy.asarray(image, dtype=numpy.float32).transpose(2, 0, 1) - 127.5) / 127.5
    _, height, width = pixels.shape
    pixels = numpy.stack([pixels, pixels])  # frame, channel, y, x
    blocks = pixels.reshape(2, 3, height // 32, 2, 16, width // 32, 2, 16)
    return numpy.ascontiguousarray(blocks.transpose(2, 5, 3, 6, 1, 0, 4, 7)).reshape(-1, 1536)


def timed(steps, value):
    times = []
    for step in steps:
        start = time.thread_time()
        value = step(value)
        times.append((time.thread_time() - start) * 1e3)
    return times


def main():
    bench, *files = sys.argv[1:]
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        width, height = Image.open(io.BytesIO(data)).size
        height, width = smart_resize(height, width)
        steps = [
            lambda d: Image.open(io.BytesIO(d)).convert("RGB"),
            lambda i: i if i.size == (width, height) else i.resize((width, height), Image.BICUBIC),
        ] + ([patches] if numpy else [])
        runs = [timed(steps, data) for _ in range(RUNS)]
        print(subprocess.run([bench, "--runs", str(RUNS), "image", path], check=True, capture_output=True, text=True).stdout)
        medians = [statistics.median(column) for column in zip(*runs)]
        for name, ms in zip(("Pillow decode", "Pillow resize", "NumPy patch "), medians):
            print(f"{name} {ms:7.2f} ms")
        print(f"{'total':13} {sum(medians):7.2f} ms{'' if numpy else ' without patches: NumPy is not here'}\n")


main()
