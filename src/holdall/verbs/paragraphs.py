"""Lines that look like errors together with what stands around them, for notices that show paragraphs."""

from collections.abc import Callable
from dataclasses import replace

from holdall.store.protocol import OutputReader
from holdall.text.utf8 import decode
from holdall.verbs.locate import line_of_byte
from holdall.wire.view import View

_BEFORE, _AFTER = 400, 800  # bytes of a paragraph before and after the line that looks like an error


def with_paragraphs(reader: OutputReader, view: View, new_tag: Callable[[], str]) -> View:
    """The view with each error as its paragraph, each paragraph once, and a tag that occurs in none of them."""
    found = view.outline.errors if view.outline is not None else ()
    paragraphs = tuple(dict.fromkeys(_paragraph(reader, byte) for byte, _ in found))
    tag = view.tag
    shown = "\n".join(text for _, text in paragraphs) + view.head.decode("utf-8", "replace")
    shown += view.tail.decode("utf-8", "replace")
    while tag in shown:
        tag = new_tag()
    return replace(view, errors=paragraphs, tag=tag)


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
