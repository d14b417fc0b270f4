"""What a server writes on standard output, taken apart into the lines that can be messages and the rest.

Pure, and linear however the bytes are cut into chunks. A line that does not begin like a message is never gathered
in memory; of all such noise only the end is kept. This module reads no JSON.
"""

from collections.abc import Iterator

_SPACE = b" \t\r"
_OPENERS = b"{["
_TAIL = 2000


class TooMuch(ValueError):
    """More than a server can mean: the message says of what."""


class Lines:
    """`feed` chunks, get lines that begin like JSON. `reject` those that turn out to be none."""

    def __init__(self, *, longest: int, noisiest: int) -> None:
        self.noise = 0  # bytes since the last message
        self.tail = b""  # the end of the noise
        self._longest = longest
        self._noisiest = noisiest
        self._line = bytearray()
        self._is_noise = False

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun like a message and has not ended yet."""
        return bool(self._line)

    def feed(self, chunk: bytes) -> Iterator[bytearray]:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            self._take(chunk[start:end])
            start = end + 1
            self._is_noise = False
            if self._line:
                line, self._line = self._line, bytearray()
                yield line
        if start < len(chunk):
            self._take(chunk[start:])

    def accept(self) -> None:
        """The last line was a message: the noise before it did no harm."""
        self.noise = 0

    def reject(self, head: bytes, size: int) -> None:
        """A line of this size began like a message and was none."""
        self._drop(head, size)

    def _take(self, piece: bytes) -> None:
        if not self._line and not self._is_noise:
            piece = piece.lstrip(_SPACE)
            if not piece:
                return
            self._is_noise = piece[0] not in _OPENERS
        if self._is_noise:
            self._drop(piece, len(piece))
            return
        self._line += piece
        if len(self._line) > self._longest:
            raise TooMuch(f"sent one message of more than {self._longest:,} bytes")

    def _drop(self, piece: bytes, size: int) -> None:
        self.noise += size + 1
        self.tail = (self.tail + piece[-_TAIL:] + b"\n")[-_TAIL:]
        if self.noise > self._noisiest:
            raise TooMuch(f"wrote more than {self._noisiest:,} bytes on standard output that are no messages")
