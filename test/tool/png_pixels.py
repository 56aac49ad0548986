# SPDX-License-Identifier: Apache-2.0
"""Reads a PNG that a browser has drawn, as far as tests need it."""

import struct
import zlib


def pixels(path):
    """The rows of a PNG with 8 bits per channel, as lists of (r, g, b)."""
    with open(path, "rb") as file:
        data = file.read()
    at = 8
    packed = b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colours = struct.unpack(">IIBB", body[:10])
            if depth != 8 or colours not in (2, 6):
                raise ValueError(f"a PNG of another kind: {path}")
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    step = 3 if colours == 2 else 4
    raw = zlib.decompress(packed)
    before = bytes(width * step)
    for row in range(height):
        begin = row * (width * step + 1)
        line = bytearray(raw[begin + 1:begin + 1 + width * step])
        unfilter(raw[begin], line, before, step)
        before = line
        yield [tuple(line[i:i + 3]) for i in range(0, len(line), step)]


def unfilter(kind, line, before, step):
    for i, value in enumerate(line):
        left = line[i - step] if i >= step else 0
        up = before[i]
        if kind == 1:
            value += left
        elif kind == 2:
            value += up
        elif kind == 3:
            value += (left + up) // 2
        elif kind == 4:
            corner = before[i - step] if i >= step else 0
            distances = [abs(left + up - corner - guess) for guess in (left, up, corner)]
            value += (left, up, corner)[distances.index(min(distances))]
        line[i] = value & 255
