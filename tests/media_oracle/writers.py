"""Writers of picture files that Pillow cannot write: every PNG and BMP type, rearranged JPEG and GIF files."""

import struct
import zlib


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


PNG_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def _filtered(rng, row, above, bpp):
    """One PNG row behind a random filter type."""
    kind = rng.randrange(5)
    out = bytearray([kind])
    for i, value in enumerate(row):
        left = row[i - bpp] if i >= bpp else 0
        up = above[i] if above else 0
        corner = above[i - bpp] if above and i >= bpp else 0
        if kind == 4:
            p = left + up - corner
            choices = [(abs(p - left), 0, left), (abs(p - up), 1, up), (abs(p - corner), 2, corner)]
            guess = min(choices)[2]
        else:
            guess = (0, left, up, (left + up) // 2)[kind]
        out.append((value - guess) & 255)
    return bytes(out)


def _packed(samples, depth):
    if depth == 16:
        return b"".join(struct.pack(">H", s) for s in samples)
    if depth == 8:
        return bytes(samples)
    out, per_byte = bytearray(), 8 // depth
    for at in range(0, len(samples), per_byte):
        byte = 0
        for i in range(per_byte):
            byte = byte << depth | (samples[at + i] if at + i < len(samples) else 0)
        out.append(byte)
    return bytes(out)


def png(rng, width, height, colour, depth, interlaced, transparency=False, colours=None):
    """A PNG of random samples; those of a palette point at `colours` entries, or past them when colours < 0."""
    channels = PNG_CHANNELS[colour]
    top = (1 << depth) - 1
    chunks = [png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced)))]
    entries = None
    if colour == 3:
        entries = abs(colours or 1 << depth)
        chunks.append(png_chunk(b"PLTE", rng.randbytes(3 * entries)))
    if transparency and colour == 3:
        chunks.append(png_chunk(b"tRNS", rng.randbytes(rng.randint(1, entries))))
    elif transparency and colour in (0, 2):
        chunks.append(png_chunk(b"tRNS", b"".join(struct.pack(">H", rng.randint(0, top)) for _ in range(channels))))
    most = entries - 1 if colour == 3 and (colours or 0) >= 0 else top
    base = [rng.randint(0, most) for _ in range(channels)]
    smooth = rng.random() < 0.5

    def sample(x, y, c):
        if smooth and colour != 3:
            return (base[c] + x * 3 + y * 5) & top
        return rng.randint(0, most)

    bpp = max(1, channels * depth // 8)
    raw = b""
    for x0, y0, dx, dy in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        xs, above = range(x0, width, dx), None
        if not xs:
            continue
        for y in range(y0, height, dy):
            row = _packed([sample(x, y, c) for x in xs for c in range(channels)], depth)
            raw += _filtered(rng, row, above, bpp)
            above = row
    data, at = zlib.compress(raw, rng.randrange(10)), 0
    while at < len(data):
        size = rng.randint(1, len(data))
        chunks.append(png_chunk(b"IDAT", data[at : at + size]))
        at += size
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + png_chunk(b"IEND", b"")


def bmp(rng, width, height, bits, compression=0, masks=None, top_down=False, core=False, colours=None, data=None):
    """A BMP of random pixels."""
    stride = (width * bits + 31) // 32 * 4
    entries = (colours or 1 << bits) if bits <= 8 else 0
    if data is None:
        if bits <= 8 and entries < 1 << bits:
            per_byte, rows = 8 // bits, bytearray()
            for _ in range(stride * height):
                byte = 0
                for _ in range(per_byte):
                    byte = byte << bits | rng.randrange(entries)
                rows.append(byte)
            data = bytes(rows)
        else:
            data = rng.randbytes(stride * height)
    if core:
        header = struct.pack("<IHHHH", 12, width, height, 1, bits)
        palette = rng.randbytes(3 * entries)
    else:
        size, more = 40, b""
        if masks is not None and len(masks) == 4:
            size, more = 108, struct.pack("<4I", *masks) + bytes(52)
        elif masks is not None:
            more = struct.pack("<3I", *masks)
        signed = -height if top_down else height
        header = struct.pack("<IiiHHIIiiII", size, width, signed, 1, bits, compression, len(data), 0, 0, colours or 0, 0)
        header += more
        palette = rng.randbytes(4 * entries)
    offset = 14 + len(header) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(data), 0, 0, offset) + header + palette + data


def bmp_runs(rng, width, height, bits):
    """Run-length coded rows: runs, literal stretches of even length, ends of rows."""
    top, out = (1 << bits) - 1, bytearray()
    for y in range(height):
        left = width
        while left > 0:
            if left >= 4 and rng.random() < 0.4:
                count = rng.randrange(4, min(left, 254) + 1) & ~1  # odd counts of nibbles: Pillow drops the last
                if bits == 8:
                    literal = rng.randbytes(count)
                else:
                    literal = rng.randbytes(count // 2)
                out += bytes([0, count]) + literal + bytes(len(literal) % 2)
            else:
                count = rng.randint(1, min(left, 255))
                value = rng.randint(0, top)
                out += bytes([count, value if bits == 8 else value << 4 | rng.randint(0, top)])
            left -= count
        out += b"\0\0" if y < height - 1 else b"\0\1"
    return bytes(out)


def _jpeg_segments(data):
    """(marker, place of its payload, length of its payload) up to the scan."""
    at = 2
    while True:
        marker, size = data[at + 1], struct.unpack(">H", data[at + 2 : at + 4])[0]
        yield marker, at + 4, size - 2
        if marker == 0xDA:
            return
        at += 2 + size


def jpeg_without(data, markers):
    out, end = data[:2], 2
    for marker, at, size in _jpeg_segments(data):
        if marker not in markers:
            out += data[at - 4 : at + size]
        end = at + size
    return out + data[end:]


def jpeg_resampled(data, width, height, factors):
    """The same blocks under another size and other sampling factors, which must ask for as many of them."""
    out = bytearray(data)
    for marker, at, _ in _jpeg_segments(data):
        if marker in (0xC0, 0xC1, 0xC2):
            out[at + 1 : at + 5] = struct.pack(">HH", height, width)
            for i, (h, v) in enumerate(factors):
                out[at + 7 + 3 * i] = h << 4 | v
    return bytes(out)


def jpeg_with_ids(data, ids):
    out = bytearray(data)
    for marker, at, _ in _jpeg_segments(data):
        for i, component in enumerate(ids):
            if marker in (0xC0, 0xC1, 0xC2):
                out[at + 6 + 3 * i] = component
            if marker == 0xDA:
                out[at + 1 + 2 * i] = component
    return bytes(out)


def jpeg_with_adobe(data, transform):
    """An Adobe marker in the front, in place of one that is there."""
    data = jpeg_without(data, {0xEE})
    segment = b"\xff\xee\x00\x0eAdobe" + struct.pack(">HHHB", 100, 0, 0, transform)
    return data[:2] + segment + data[2:]


def gif_moved(data, screen_width, screen_height, left, top):
    """The first frame elsewhere on a screen of another size."""
    out = bytearray(data)
    out[6:10] = struct.pack("<HH", screen_width, screen_height)
    at = 13 + (3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0)
    while data[at] == 0x21:  # extensions
        at += 2
        while data[at]:
            at += data[at] + 1
        at += 1
    assert data[at] == 0x2C
    out[at + 1 : at + 5] = struct.pack("<HH", left, top)
    return bytes(out)


