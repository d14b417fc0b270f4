"""The clamp of one text: line cap first, then byte cap, and the suffix that says so.

The suffix stands inside the byte cap and after the line cap: a clamped text has at most `max_bytes` bytes, and at most
`max_lines` lines before its suffix. A text that was clamped before is recognised by its suffix and left as it is, so
that a second clamp, or the guard before a transcript is kept, changes nothing.

How a real suffix is told from a quoted one: it is the end of the text, and where what is kept of the text holds the
same words, the real one carries a tag, `[holdall:TAG]`, that occurs nowhere before it (see `clamp_text`).
"""

from dataclasses import dataclass

from holdall.text.excerpt import byte_count, first_bytes, first_lines, line_count

MAX_BYTES = 50 * 1024
MAX_LINES = 2000

MARK = "[tool output truncated: "  # how every text of the clamp begins
_LEAD = "\n\n"
_ADVICE = "; request smaller chunks (offset/limit) or specific sections]"
_SHORT = ("\n[truncated]", "…", "")  # for limits that are shorter than a suffix
_ROOM = 1024  # how far before the end the suffix of an earlier clamp may begin
_LINES_OF_A_SUFFIX = 3


@dataclass(frozen=True, slots=True)
class Clamped:
    """A text that fits, and how much of the whole it shows. Without a change `text` is the object that came in."""

    text: str
    kept_bytes: int
    kept_lines: int
    total_bytes: int
    total_lines: int
    changed: bool


def suffix_for(
    max_bytes: int | None,
    max_lines: int | None,
    *,
    max_tokens: int | None = None,
    room: bool = False,
    handle: str = "",
    gone: str = "",
) -> str:
    """The suffix of S4 with these limits in it, and after it where the rest is, when that is known.

    `room` names the room that was left in the turn among what was exceeded. `handle` is for an output that is kept,
    `gone` the reason why one is not.
    """
    over = " or ".join(
        [
            *([_size(max_bytes)] if max_bytes is not None else []),
            *([f"{max_lines} line{'' if max_lines == 1 else 's'}"] if max_lines is not None else []),
            *([f"{max_tokens} tokens"] if max_tokens is not None else []),
            *(["the room left in this turn"] if room else []),
        ]
    )
    rest = f"\n[all of it is kept; handle: {handle}]" if handle else ""
    lost = f"\n[the rest was not kept and is gone: {_one_line(gone)}]" if gone else ""
    return f"{_LEAD}{MARK}exceeded {over or 'its limits'}{_ADVICE}{rest}{lost}"


def _one_line(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 300 else flat[:299] + "…"


def _size(number: int) -> str:
    if number and number % 1024 == 0:
        return f"{number // 1024}KB"
    return f"{number} byte{'' if number == 1 else 's'}"


SUFFIX = suffix_for(MAX_BYTES, MAX_LINES)


def clamp_text(
    text: str,
    *,
    max_bytes: int | None = MAX_BYTES,
    max_lines: int | None = MAX_LINES,
    suffix: str | None = None,
    tag: str = "",
) -> Clamped:
    """`text`, or its beginning and a suffix. None means that this number does not decide.

    Without a `suffix` it is that of S4, made from the limits. `tag` is a word that the output could not foresee; it is
    put before the suffix only where the beginning itself holds words of a clamp, lengthened until it occurs nowhere in
    it. So with a tag at hand a suffix is real when it ends the text and either no other stands before it or it is
    tagged, and every other one is quoted.
    """
    total_bytes, total_lines = byte_count(text), line_count(text)
    ending = suffix_for(max_bytes, max_lines) if suffix is None else suffix
    fits = max_bytes is None or total_bytes <= max_bytes
    if not fits or (max_lines is not None and total_lines > max_lines and lines_shown(text, ending) > max_lines):
        head, ending = cut(text, max_bytes=max_bytes, max_lines=max_lines, suffix=ending, tag=tag)
        shown = head + ending
        if shown != text:
            return Clamped(shown, byte_count(head), line_count(head), total_bytes, total_lines, changed=True)
    return Clamped(text, total_bytes, total_lines, total_bytes, total_lines, changed=False)


def cut(text: str, *, max_bytes: int | None, max_lines: int | None, suffix: str, tag: str) -> tuple[str, str]:
    """As much of `text` as fits together with the suffix, and the suffix."""
    head = text if max_lines is None else first_lines(text, max(0, max_lines)).text
    if tag:
        suffix = _tagged(suffix, tag, head if max_bytes is None else head[: max(0, max_bytes)])
    if max_bytes is None:
        return head, suffix
    ending = fitting(suffix, max_bytes)
    # A part that cannot even say so would pass for the whole: then nothing is shown.
    room = max_bytes - byte_count(ending) if ending or not suffix else 0
    return first_bytes(head, room).text, ending


def fitting(text: str, limit: int) -> str:
    """`text`, or the longest of the short forms that fits."""
    return next((form for form in (text, *_SHORT) if byte_count(form) <= limit), "")


def lines_shown(text: str, suffix: str = "") -> int:
    """The lines of the output in `text`: those of a suffix, which an earlier clamp put there, are not counted."""
    if any(text == form.strip() for form in _SHORT):
        return 0
    end = _end_of_output(text, suffix)
    # Of a block that is left out only a marker stands there, with the suffix after it where it is the first.
    return 0 if text.startswith(MARK) and text.find("\n", 0, end) < 0 else line_count(text, end)


def _end_of_output(text: str, suffix: str) -> int:
    for ending in (suffix, _SHORT[0]):
        if ending and text.endswith(ending):
            return len(text) - len(ending)
    at = text.rfind(MARK, max(0, len(text) - _ROOM))
    if at < 0 or text.count("\n", at) > _LINES_OF_A_SUFFIX:
        return len(text)
    if text.endswith("] ", 0, at):
        at = max(text.rfind("[holdall:", max(0, at - _ROOM), at), 0) or at
    return at - len(_LEAD) if text.endswith(_LEAD, 0, at) else len(text)


def _tagged(suffix: str, tag: str, kept: str) -> str:
    words = suffix.lstrip("\n")
    if (MARK.rstrip(": ") if MARK in suffix else words) not in kept:
        return suffix
    number, free = 1, tag
    while free in kept:
        number += 1
        free = f"{tag}-{number}"
    return f"{suffix[: len(suffix) - len(words)]}[holdall:{free}] {words}"
