"""UTF-8 over pieces: how many characters end in a piece, and how a piece of a larger text is decoded.

Invalid bytes become U+FFFD as Python's `errors="replace"` does it over the whole text, so a position counted
piece by piece is the position in the whole. Nothing here changes stored bytes.
"""

import base64
import codecs
import re
import zlib
from itertools import islice
from typing import Any

from holdall.values.patterns import lazy_pattern

REPLACEMENT = "\ufffd"
REPLACED = "replaced by U+FFFD"  # how a note ends that tells of it

_REPLACED = REPLACEMENT.encode("utf-8")
_LONGEST_PLACE = 24  # characters that say where a lone surrogate was, and which
_SURROGATE = lazy_pattern("[\ud800-\udfff]")

# One decoded character: a whole sequence, or the longest beginning of one, or a single stray byte. These are the
# units that Python's decoder replaces by one U+FFFD each.
_CHAR = lazy_pattern(
    rb"[\x00-\x7f]|[\xc2-\xdf][\x80-\xbf]"
    rb"|\xe0[\xa0-\xbf][\x80-\xbf]?|\xed[\x80-\x9f][\x80-\xbf]?|[\xe1-\xec\xee\xef][\x80-\xbf]{1,2}"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]{0,2}|\xf4[\x80-\x8f][\x80-\xbf]{0,2}|[\xf1-\xf3][\x80-\xbf]{1,3}"
    rb"|.",
    re.DOTALL,
)


def pending_bytes(tail: bytes) -> int:
    """How many bytes at the end of `tail` begin a character that is not finished yet (0 to 3).

    The last three bytes decide: a lead byte always starts a new character, whatever was before it.
    """
    for back in range(1, min(3, len(tail)) + 1):
        byte = tail[-back]
        if byte & 0xC0 == 0x80:
            continue
        if byte < 0xC2 or byte > 0xF4:
            return 0
        _, used = codecs.utf_8_decode(tail[-back:], "replace", False)
        return back - used
    return 0


def straddling_bytes(before: bytes, after: bytes) -> int:
    """How many bytes at the end of `before` belong to a character that goes on in `after`."""
    pending = pending_bytes(before[-3:])
    if not pending:
        return 0
    whole = _CHAR.match(before[-pending:] + after[:3])
    return pending if whole and whole.end() > pending else 0


def split_character(before: bytes, after: bytes) -> tuple[int, int]:
    """How many bytes of one character stand at the end of `before` and at the beginning of `after`: none on either
    side where no character is between them, or only a broken one.
    """
    pending = pending_bytes(before[-3:])
    whole = _CHAR.match(before[-pending:] + after[:3]) if pending else None
    if whole is None or whole.end() <= pending or not decode(whole[0])[1]:
        return 0, 0
    return pending, whole.end() - pending


def decode(data: bytes | memoryview) -> tuple[str, bool]:
    """Text for `data`, and whether it stands for exactly these bytes."""
    try:
        return str(data, "utf-8"), True
    except UnicodeDecodeError:
        return str(data, "utf-8", "replace"), False


def stray_runs(data: bytes) -> list[tuple[int, int]]:
    """Where the bytes are that are not UTF-8: those that stand together as one run, from where to where."""
    found: list[tuple[int, int]] = []
    view, at = memoryview(data), 0
    while at < len(data):
        try:
            str(view[at:], "utf-8")
        except UnicodeDecodeError as error:
            start, end = at + error.start, at + error.end
            if found and found[-1][1] == start:
                start = found.pop()[0]
            found.append((start, end))
            at = end
        else:
            break
    return found


class CharCounter:
    """Counts the characters that end in each piece of a stream. `valid` turns False at the first bad byte."""

    def __init__(self) -> None:
        self.valid = True
        self._pending = b""

    @property
    def pending(self) -> bool:
        """Whether the last piece ended inside a character."""
        return bool(self._pending)

    def feed(self, piece: bytes | memoryview) -> int:
        data = self._pending + bytes(piece) if self._pending else piece
        try:
            text, used = codecs.utf_8_decode(data, "strict", False)
        except UnicodeDecodeError:
            self.valid = False
            text, used = codecs.utf_8_decode(data, "replace", False)
        self._pending = bytes(data[used:])
        return len(text)

    def finish(self) -> int:
        """The characters that a cut-off sequence at the very end stands for: none, one, or two for half a surrogate."""
        if not self._pending:
            return 0
        self.valid = False
        text, _ = codecs.utf_8_decode(self._pending, "replace", True)
        self._pending = b""
        return len(text)


def encode(text: str) -> tuple[bytes, int]:
    """The bytes of `text`, and how many lone surrogates had to be replaced to get them."""
    try:
        return text.encode("utf-8"), 0
    except UnicodeEncodeError:
        replaced = sum(1 for char in text if "\ud800" <= char <= "\udfff")
        clean = "".join(REPLACEMENT if "\ud800" <= char <= "\udfff" else char for char in text)
        return clean.encode("utf-8"), replaced


class Surrogates:
    """Encodes a text that comes in pieces, and remembers each lone surrogate that it had to replace, and where."""

    def __init__(self) -> None:
        self.count = 0
        self._at = 0  # bytes since the last one
        self._packer: Any = None
        self._packed = b""

    def encode(self, text: str) -> bytes:
        data, replaced = encode(text)
        if replaced:
            self._remember(text)
        else:
            self._at += len(data)
        self.count += replaced
        return data

    def passed(self, data: bytes) -> bytes:
        """Bytes that are between pieces of text."""
        self._at += len(data)
        return data

    def packed(self) -> str:
        """For the facts: what `with_surrogates` needs. Nothing if nothing was replaced. Asked once, at the end."""
        if self._packer is None:
            return ""
        return base64.b64encode(self._packed + self._packer.flush()).decode("ascii")

    def _remember(self, text: str) -> None:
        self._packer = self._packer or zlib.compressobj()
        found: list[str] = []
        done = 0
        for match in _SURROGATE.finditer(text):
            gap = self._at + len(text[done : match.start()].encode("utf-8"))
            found.append(f"{gap:x} {ord(match[0]):x}\n")
            self._at, done = 0, match.end()
        self._at = len(text[done:].encode("utf-8"))
        self._packed += self._packer.compress("".join(found).encode("ascii"))


def with_surrogates(data: bytes, packed: str) -> str:
    """The text whose encoding is `data`, with the lone surrogates that `Surrogates` replaced back in their places.

    Raises ValueError if the two do not fit together.
    """
    whole, at = bytearray(data), 0
    most = len(data) // len(_REPLACED) * _LONGEST_PLACE  # whoever wrote it: it never takes more memory than this
    places = zlib.decompressobj().decompress(base64.b64decode(packed), most + 1) if packed else b""
    if len(places) > most:
        raise ValueError("there are more lone surrogates than the text has room for")
    for place in places.decode("ascii").split("\n")[:-1]:
        gap, code = (int(number, 16) for number in place.split(" "))
        at += gap
        if not 0xD800 <= code <= 0xDFFF or bytes(whole[at : at + len(_REPLACED)]) != _REPLACED:
            raise ValueError(f"no lone surrogate was replaced at byte {at:,}")
        whole[at : at + len(_REPLACED)] = chr(code).encode("utf-8", "surrogatepass")
        at += len(_REPLACED)
    return whole.decode("utf-8", "surrogatepass")


def char_offset_to_byte(data: bytes, chars: int) -> int:
    """The byte at which char number `chars` of `data` starts; len(data) where there are fewer."""
    if data.isascii():
        return min(chars, len(data))
    text, exact = decode(data)
    if chars >= len(text):
        return len(data)
    if exact:
        return len(text[:chars].encode("utf-8"))
    # A replacement character does not have the length of what it stands for: step over whole sequences.
    nth = next(islice(_CHAR.finditer(data), chars, None))
    return nth.start()
