"""Generates pictures of every format, decodes them with Pillow and with us, and compares the pixels.

    compare.py COMPARE_PROGRAM WORK_FOLDER
"""

import hashlib
import io
import os
import random
import shutil
import subprocess
import sys
import warnings

import PIL
from PIL import Image, ImageFile, features

import writers

warnings.simplefilter("ignore")
ImageFile.LOAD_TRUNCATED_IMAGES = False


def picture(rng, mode, width, height):
    """Noise over a gradient: enough structure for lossy formats, enough noise for the rest."""
    bands = len(Image.new(mode, (1, 1)).getbands())
    base = [rng.randrange(256) for _ in range(bands)]
    noise = rng.choice([0, 20, 255])
    values = bytearray()
    for y in range(height):
        for x in range(width):
            for band in range(bands):
                level = base[band] + (band + 1) * x * 2 + (3 - band) * y + rng.randint(0, noise)
                values.append(level & 255)
    return Image.frombytes(mode, (width, height), bytes(values))


def saved(image, form, **options):
    out = io.BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def paletted(rng, width, height, colours):
    image = Image.frombytes("P", (width, height), bytes(rng.randrange(colours) for _ in range(width * height)))
    image.putpalette(rng.randbytes(3 * colours))
    return image


def png_files(rng):
    for colour, depths in {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}.items():
        for depth in depths:
            for interlaced in (False, True):
                for transparency in (False, True):
                    width, height = rng.randint(1, 40), rng.randint(1, 40)
                    name = f"png_c{colour}_d{depth}_{'i' if interlaced else 'n'}{'t' if transparency else 'o'}"
                    yield name, writers.png(rng, width, height, colour, depth, interlaced, transparency)
    for i in range(12):
        depth = rng.choice([2, 4, 8])
        colours = rng.randint(1, (1 << depth) - 1)
        past_the_end = i % 2 == 1
        yield f"png_short_palette_{i}", writers.png(
            rng, rng.randint(1, 30), rng.randint(1, 30), 3, depth, i % 3 == 0, colours=-colours if past_the_end else colours
        )
    for i in range(8):
        yield f"png_thin_{i}", writers.png(rng, *rng.choice([(1, 9), (9, 1), (2, 2), (1, 1)]), rng.choice([2, 6]), 8, i % 2 == 0)


def jpeg_files(rng):
    for i in range(48):
        mode = ("RGB", "RGB", "L")[i % 3]
        image = picture(rng, mode, rng.randint(1, 70), rng.randint(1, 70))
        options = {"quality": rng.randint(1, 100), "progressive": i % 2 == 0, "optimize": i % 5 == 0}
        if mode == "RGB":
            options["subsampling"] = i // 3 % 3
        yield f"jpeg_{mode}_{i}", saved(image, "JPEG", **options)
    # Sampling factors that Pillow does not write: the blocks of files that it does, under another size.
    layouts = {
        "440": (1, lambda w, h: (h, w), [(1, 2), (1, 1), (1, 1)]),
        "chroma_above_luma": (1, lambda w, h: (w, h), [(1, 1), (2, 1), (1, 1)]),
        "uneven_chroma": (1, lambda w, h: (w, h), [(1, 1), (1, 1), (2, 1)]),
        "411": (2, lambda w, h: (-(-w // 16) * 32 - w % 9, -(-h // 16) * 8 - h % 5), [(4, 1), (1, 1), (1, 1)]),
        "441": (2, lambda w, h: (-(-w // 16) * 8 - w % 5, -(-h // 16) * 32 - h % 9), [(1, 4), (1, 1), (1, 1)]),
        "410_like": (2, lambda w, h: (w, h), [(2, 1), (2, 1), (1, 2)]),
    }
    for name, (subsampling, size, factors) in layouts.items():
        for i in range(4):
            width, height = rng.randint(1, 80), rng.randint(1, 80)
            image = picture(rng, "RGB", width, height)
            data = saved(image, "JPEG", quality=90, subsampling=subsampling, progressive=False)
            yield f"jpeg_{name}_{i}", writers.jpeg_resampled(data, *size(width, height), factors)
    for i in range(12):
        cmyk = saved(picture(rng, "CMYK", rng.randint(1, 50), rng.randint(1, 50)), "JPEG", quality=95)
        yield f"jpeg_cmyk_adobe_{i}", cmyk
        yield f"jpeg_cmyk_bare_{i}", writers.jpeg_without(cmyk, {0xEE})
        yield f"jpeg_ycck_{i}", writers.jpeg_with_adobe(cmyk, 2)
    for i in range(4):
        rgb = saved(picture(rng, "RGB", rng.randint(1, 50), rng.randint(1, 50)), "JPEG", quality=95, subsampling=0)
        bare = writers.jpeg_without(rgb, {0xE0})
        yield f"jpeg_rgb_by_adobe_{i}", writers.jpeg_with_adobe(bare, 0)
        yield f"jpeg_ycc_by_adobe_{i}", writers.jpeg_with_adobe(bare, 1)
        yield f"jpeg_jfif_over_adobe_{i}", writers.jpeg_with_adobe(rgb, 0)
        yield f"jpeg_rgb_by_ids_{i}", writers.jpeg_with_ids(bare, b"RGB")
        yield f"jpeg_odd_ids_{i}", writers.jpeg_with_ids(bare, bytes([7, 8, 9]))
        exif = Image.Exif()
        exif[0x0112] = 6  # orientation
        image = picture(rng, "RGB", 30, 20)
        yield f"jpeg_exif_{i}", saved(image, "JPEG", exif=exif, quality=80)
    for i in range(10):  # damaged entropy data: both go on
        data = bytearray(saved(picture(rng, "RGB", 60, 60), "JPEG", quality=90, progressive=i % 2 == 0))
        for _ in range(5):
            at = rng.randint(len(data) * 3 // 4, len(data) - 8)
            data[at] = rng.randrange(255)
        yield f"jpeg_damaged_{i}", bytes(data)


def webp_files(rng):
    for i in range(40):
        mode = ("RGB", "RGBA")[i % 2]
        image = picture(rng, mode, rng.randint(1, 60), rng.randint(1, 60))
        yield f"webp_{mode}_{i}", saved(
            image,
            "WEBP",
            lossless=i % 3 == 0,
            quality=rng.randint(0, 100),
            alpha_quality=rng.randint(0, 100),
            method=rng.randrange(7),
            exact=i % 4 == 0,
        )
    for i in range(6):
        mode = ("RGB", "RGBA")[i % 2]
        frames = [picture(rng, mode, 33, 21) for _ in range(3)]
        yield f"webp_animated_{i}", saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=i % 3 == 0)


def gif_files(rng):
    for i in range(30):
        colours = rng.choice([2, 3, 5, 17, 100, 256])
        image = paletted(rng, rng.randint(1, 60), rng.randint(1, 60), colours)
        options = {"interlace": i % 2, "optimize": False}
        if i % 3 == 0:
            options["transparency"] = rng.randrange(colours)
        data = saved(image, "GIF", **options)
        yield f"gif_{i}", data
        width, height = image.size
        yield f"gif_moved_{i}", writers.gif_moved(
            data, width + rng.randint(0, 9), height + rng.randint(0, 9), rng.randint(0, 12), rng.randint(0, 12)
        )
    for i in range(5):
        yield f"gif_gray_{i}", saved(picture(rng, "L", rng.randint(1, 40), rng.randint(1, 40)), "GIF")
        frames = [paletted(rng, 30, 20, 9) for _ in range(3)]
        yield f"gif_animated_{i}", saved(frames[0], "GIF", save_all=True, append_images=frames[1:])


def bmp_files(rng):
    for i, mode in enumerate(["1", "L", "P", "RGB", "RGBA"] * 3):
        width, height = rng.randint(1, 40), rng.randint(1, 40)
        if mode == "P":
            image = paletted(rng, width, height, rng.randint(2, 256))
        else:
            image = picture(rng, "L" if mode == "1" else mode, width, height).convert(mode)
        yield f"bmp_by_pillow_{mode}_{i}", saved(image, "BMP")
    for i in range(6):
        for bits in (1, 4, 8, 16, 24, 32):
            size = rng.randint(1, 40), rng.randint(1, 40)
            colours = rng.randint(3, (1 << bits) - 1) if bits in (4, 8) and i % 3 == 2 else None
            core = i % 3 == 1 and bits in (1, 4, 8, 24)
            yield f"bmp_{bits}_{i}", writers.bmp(rng, *size, bits, top_down=i % 2 == 0 and not core, core=core, colours=colours)
    fields = [
        (16, (0xF800, 0x7E0, 0x1F)),
        (16, (0x7C00, 0x3E0, 0x1F)),
        (24, (0xFF0000, 0xFF00, 0xFF)),
        (32, (0xFF0000, 0xFF00, 0xFF)),
        (32, (0xFF000000, 0xFF0000, 0xFF00, 0)),
        (32, (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
        (32, (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
        (32, (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
        (32, (0, 0, 0, 0)),
    ]
    for i, (bits, masks) in enumerate(fields):
        yield f"bmp_fields_{i}", writers.bmp(rng, rng.randint(1, 40), rng.randint(1, 40), bits, 3, masks)
    for i in range(12):
        bits = (8, 4)[i % 2]
        width, height = rng.randint(1, 60), rng.randint(1, 20)
        data = writers.bmp_runs(rng, width, height, bits)
        yield f"bmp_rle{bits}_{i}", writers.bmp(rng, width, height, bits, 2 if bits == 4 else 1, data=data)


def truncated(rng, files):
    """Files of each kind cut inside their pixel data."""
    kinds = {}
    for name, data in files:
        kinds.setdefault(name.split("_")[0], []).append((name, data))
    for some in kinds.values():
        for name, data in rng.sample(some, 8):
            if len(data) > 200:
                yield f"cut_{name}", data[: len(data) * 6 // 10]


def pillow(data):
    try:
        image = Image.open(io.BytesIO(data)).convert("RGB")
    except Exception as error:  # whatever Pillow does not take, we shall not take either
        return f"error {type(error).__name__}: {error}"
    return f"{image.width} {image.height} {hashlib.sha256(image.tobytes()).hexdigest()}"


def main():
    compare, work = sys.argv[1:]
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    rng = random.Random(20240607)
    files = [f for make in (png_files, jpeg_files, webp_files, gif_files, bmp_files) for f in make(rng)]
    files += list(truncated(rng, files))
    assert len({name for name, _ in files}) == len(files)
    paths = []
    for name, data in files:
        paths.append(os.path.join(work, name))
        with open(paths[-1], "wb") as out:
            out.write(data)
    ours = subprocess.run([compare], input="\n".join(paths) + "\n", capture_output=True, text=True, check=True).stdout
    ours = ours.splitlines()
    assert len(ours) == len(files), (len(ours), len(files))

    libraries = ", ".join(f"{name} {features.version(name)}" for name in ("libjpeg_turbo", "webp", "zlib"))
    differences = errors = 0
    for (name, data), line in zip(files, ours):
        theirs = pillow(data)
        if theirs.startswith("error"):
            errors += 1
            if not name.startswith(("cut_", "jpeg_damaged_")):
                differences += 1
                print(f"{name}: meant to be good, but Pillow says {theirs}")
        if line != theirs and not (line.startswith("error") and theirs.startswith("error")):
            differences += 1
            print(f"{name}: Pillow {theirs}\n{' ' * len(name)}  ours   {line}")
    print(f"{len(files)} pictures against Pillow {PIL.__version__} ({libraries}): {differences} differ; both refuse {errors}")
    if differences == 0:
        shutil.rmtree(work)
    sys.exit(1 if differences else 0)


main()
