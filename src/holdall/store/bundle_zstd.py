"""Compression of bundles: zstd of the language where it has one, else the same as a package.

One thread, one level, a checksum at the end: the same bytes in give the same bytes out, with the same library.
"""

import importlib
import sys
from typing import TYPE_CHECKING

from holdall.values.errors import MissingExtra

if TYPE_CHECKING:
    from backports import zstd
elif sys.version_info >= (3, 14):
    zstd = importlib.import_module("compression.zstd")
else:
    try:
        from backports import zstd
    except ModuleNotFoundError as problem:
        raise MissingExtra("backports.zstd", "bundle", "a session as one file") from problem

MAGIC = b"\x28\xb5\x2f\xfd"
Broken = zstd.ZstdError
_LEVEL = 1  # a session is exported while somebody waits; the next levels take twice as long for a tenth less
_WINDOW_LOG = 23  # 8 MiB: what a file may ask of our memory


def compressor() -> "zstd.ZstdCompressor":
    names = zstd.CompressionParameter
    return zstd.ZstdCompressor(options={names.compression_level: _LEVEL, names.checksum_flag: 1})


def decompressor() -> "zstd.ZstdDecompressor":
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG})
