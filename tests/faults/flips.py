"""Bits that change by themselves, at places that are the same at every run."""

import random
from collections.abc import Sequence


def sample(size: int, count: int) -> Sequence[int]:
    """Positions from 0 up to `size`, the first and the last among them; the same at every run."""
    if count >= size:
        return range(size)
    return sorted({0, size - 1, *random.Random(size).sample(range(size), count)})


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
