"""What the beginning of a GGUF file says: that it is one, and for how many tokens its model was trained.

Only the beginning is read, never the weights; a file that lies about its sizes is refused, not followed.
"""

import struct
from pathlib import Path
from typing import BinaryIO

from holdall.values.errors import NoSuchModel

_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of each type of number
_UNSIGNED = {4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9
_MOST_ENTRIES = 100_000
_LONGEST_KEY = 65_535
_UNKNOWN = 4_096  # tokens, where the file does not say


class _Broken(Exception):
    pass


def trained_context(path: Path) -> int:
    """Tokens. Raises NoSuchModel where there is no such file, or it is no model."""
    try:
        with path.open("rb") as file:
            return _context_in(file)
    except OSError as refused:
        raise NoSuchModel(f"gguf:{path}: {refused.strerror or 'it cannot be read'}. {_WAY_OUT}") from refused
    except (_Broken, struct.error, RecursionError) as broken:
        raise NoSuchModel(f"gguf:{path} is not a whole GGUF file. {_WAY_OUT}") from broken


_WAY_OUT = "Name a file that ends in .gguf, as gguf:PATH, and see that its download is complete."


def _context_in(file: BinaryIO) -> int:
    if file.read(4) != _MAGIC:
        raise _Broken
    _, _, entries = struct.unpack("<IQQ", file.read(20))
    if entries > _MOST_ENTRIES:
        raise _Broken
    for _ in range(entries):
        key = _string(file, _LONGEST_KEY)
        (kind,) = struct.unpack("<I", file.read(4))
        if key.endswith(b".context_length") and kind in _UNSIGNED:
            (tokens,) = struct.unpack(_UNSIGNED[kind], file.read(_SIZES[kind]))
            return tokens if tokens > 0 else _UNKNOWN
        _skip(file, kind)
    return _UNKNOWN


def _skip(file: BinaryIO, kind: int) -> None:
    if kind in _SIZES:
        file.seek(_SIZES[kind], 1)
    elif kind == _STRING:
        (length,) = struct.unpack("<Q", file.read(8))
        _forward(file, length)
    elif kind == _ARRAY:
        inner, count = struct.unpack("<IQ", file.read(12))
        if inner in _SIZES:
            _forward(file, count * _SIZES[inner])
        else:
            for _ in range(count):  # ends with the file: each needs eight bytes of it
                _skip(file, inner)
    else:
        raise _Broken


def _forward(file: BinaryIO, length: int) -> None:
    if length > 1 << 40:
        raise _Broken
    file.seek(length, 1)


def _string(file: BinaryIO, longest: int) -> bytes:
    (length,) = struct.unpack("<Q", file.read(8))
    if length > longest:
        raise _Broken
    return file.read(length)
