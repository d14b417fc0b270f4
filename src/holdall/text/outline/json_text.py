"""JSON as text: what it would cost to parse, parsed, and its strings as they are to be read.

Bytes are read as Latin-1, where every byte is a character: decoding is free and brackets are where they were. Names
and texts are turned back into UTF-8 by `readable` when they are shown.
"""

import json
import re
from typing import Any

import stringzilla

_PROBES = 6  # places at which it is looked how dense a text is …
_PROBE = 8 * 1024  # … and so many bytes at each
# What the parser of Python takes for a million of each, in milliseconds, on the machine that this was measured on.
_PER_BYTE, _PER_COMMA, _PER_CONTAINER, _PER_STRING, _PER_NEW_KEY = 1.2, 60, 180, 60, 350
_KEY = re.compile(rb'"([^"\\]{0,80})"\s?:')
_SEQUENCE = re.compile("[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
_LONE = re.compile("[\ud800-\udfff]")


def cost(data: bytes) -> float:
    """Milliseconds that it takes to parse it, judged by some of it."""
    starts = range(0, max(1, len(data) - _PROBE), max(1, len(data) // _PROBES))
    probes = [data[start : start + _PROBE] for start in starts]
    keys = [key for probe in probes for key in _KEY.findall(probe)]
    found = sum(
        _PER_COMMA * stringzilla.count(probe, b",")
        + _PER_CONTAINER * (stringzilla.count(probe, b"{") + stringzilla.count(probe, b"["))
        + _PER_STRING * stringzilla.count(probe, b'"') / 2
        for probe in probes
    )
    found += _PER_NEW_KEY * len(set(keys)) + _PER_BYTE * sum(map(len, probes))
    scale = len(data) / max(1, sum(map(len, probes)))
    return found * scale / 1e6


def loads(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except json.JSONDecodeError:
        raise
    except ValueError:  # a number with more digits than Python reads
        return json.loads(text, strict=False, parse_int=float)


def readable(text: str) -> str:
    """The text that a Latin-1 reading of UTF-8 stands for. What was an escape in the JSON stays as it is."""
    if text.isascii():
        return text
    return _LONE.sub("\ufffd", _SEQUENCE.sub(lambda found: found[0].encode("latin-1").decode("utf-8", "replace"), text))
