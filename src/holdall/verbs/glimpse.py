"""The two ends of an output, its outline, and whether all of it would fit: what a notice is built from."""

from collections.abc import Callable

from holdall.policy.decide import Fits, decide
from holdall.policy.limits import Limits
from holdall.store.protocol import OutputReader
from holdall.text.outline import outline
from holdall.text.tokens import Tokenizer
from holdall.text.utf8 import decode
from holdall.verbs.locate import line_of_byte
from holdall.wire.view import GLIMPSE, MOST_TOKENS, View

_BEFORE, _AFTER = 400, 800  # bytes of a paragraph before and after the line that looks like an error


def glimpse(
    reader: OutputReader,
    new_tag: Callable[[], str],
    *,
    tokenizer: Tokenizer,
    outlined: bool = True,
    most_tokens: int = MOST_TOKENS,
    long_handle: bool = False,
    paragraphs: bool = False,
) -> View:
    """At most GLIMPSE bytes of each end, the outline, and a tag that occurs in nothing that is shown."""
    total = reader.totals.bytes
    head, tail = reader.read(0, GLIMPSE), reader.read(max(0, total - GLIMPSE), total)
    found = outline(reader.read, reader.facts.measure, tool=reader.facts.origin.tool) if outlined else None
    errors = tuple((line_of_byte(reader, byte), text) for byte, text in found.errors) if found else ()
    if paragraphs and found:
        errors = tuple(_paragraph(reader, byte) for byte, _ in found.errors)
    shown = "\n".join([*found.lines, *(text for _, text in errors)]).encode("utf-8", "replace") if found else b""
    tag = new_tag()
    while any(tag.encode() in part for part in (head, tail, shown)):
        tag = new_tag()
    return View(reader.facts, head, tail, tag, found, errors, tokenizer, most_tokens, long_handle)


def _paragraph(reader: OutputReader, byte: int) -> tuple[int, str]:
    """The lines around an error up to the next blank ones, at most so many bytes of them; and their first line."""
    before, after = reader.read(max(0, byte - _BEFORE), byte), reader.read(byte, byte + _AFTER)
    blank = before.rfind(b"\n\n")
    if blank >= 0:
        start = byte - len(before) + blank + 2
    else:
        start = 0 if byte <= _BEFORE else byte - len(before) + before.find(b"\n") + 1
    blank = after.find(b"\n\n")
    if blank < 0:
        blank = after.rfind(b"\n") if len(after) == _AFTER and b"\n" in after else len(after)
    return line_of_byte(reader, start), decode(reader.read(start, byte + blank))[0].rstrip("\n")


def whole_text(reader: OutputReader, limits: Limits, tokenizer: Tokenizer) -> str | None:
    """All of the output where it would have been shown as it is: valid text, whole, and inside the limits."""
    facts, size = reader.facts, reader.totals.bytes
    most = limits.bytes if limits.bytes is not None else 128 * (limits.tokens or limits.chars or 1 << 40)
    if size > most or not facts.measure.utf8 or not facts.is_whole:
        return None
    text = reader.read(0, size).decode("utf-8")
    return text if isinstance(decide(text, limits=limits, tokenizer=tokenizer), Fits) else None
