"""The clamp (S4): at most 50 KB and 2,000 lines of what a tool gave: a text, content blocks, an error, the tool
results of a transcript. Line cap first, then byte cap, with a suffix that says what is missing.
"""

import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar, cast

from holdall.policy.decide import Limits
from holdall.text.escape import one_line
from holdall.text.excerpt import byte_count, first_bytes, first_lines, line_count
from holdall.text.numbers import plural
from holdall.values.errors import BadCall, BadReference
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.wire.results import field, is_block, path_to_content, results_in, text_of, with_field, with_text

# The clamp of one text: line cap first, then byte cap, and the suffix that says so.
#
# The suffix is inside the byte cap and after the line cap: a clamped text has at most `max_bytes` bytes, and at most
# `max_lines` lines before its suffix. A text that was clamped before is recognised by its suffix and left as it is, so
# that a second clamp, or the guard before a transcript is kept, changes nothing.
#
# How a real suffix is told from a quoted one: it is the end of the text, and where what is kept of the text holds the
# same words, the real one carries a tag, `[holdall:TAG]`, that occurs nowhere before it (see `clamp_text`).


MAX_BYTES = 50 * 1024
MAX_LINES = 2000

_TRIES = 8

Result = TypeVar("Result")


class Shrink:
    """The one loop that makes a text smaller until it fits: the sizes to try, each smaller than the one before.

        shrink = Shrink(50_000, least=256)
        for size in shrink:
            text = first(size)
            shrink.over = tokens(text) / most

    `over` says how many times too large the last one came out; at 1 or less the loop ends. The last try is `least`:
    what `fits` denies then cannot be made small enough.
    """

    def __init__(self, size: float, *, least: float, margin: float = 0.95) -> None:
        """The next size is `margin` times its proportional share, so that two or three tries are enough."""
        self.size = size
        self.margin = margin
        self.least = min(least, size)
        self.over = 1.0

    @property
    def fits(self) -> bool:
        return self.over <= 1

    def __iter__(self) -> Iterator[float]:
        for left in reversed(range(_TRIES)):
            yield self.size
            if self.fits or self.size <= self.least:
                return
            self.size = max(self.least, self.size / self.over * self.margin) if left > 1 else self.least


def fitted(
    size: int, *, least: int, make: Callable[[int], Result], over: Callable[[Result], float]
) -> tuple[int, Result]:
    """The size that fits, and what was made of it; else those of the least."""
    shrink = Shrink(size, least=least)
    made: Result | None = None
    for one in shrink:
        made = make(int(one))
        shrink.over = over(made)
    return int(shrink.size), cast("Result", made)


MARK = "[tool output truncated: "  # how every text of the clamp begins
_LEAD = "\n\n"
_ADVICE = "; request smaller chunks (offset/limit) or specific sections]"
_SHORT = ("\n[truncated]", "[cut]", "…", "")  # for limits that are shorter than a suffix
_NEAR = 1024  # signs
_ROOM = 1024  # how far before the end the suffix of an earlier clamp may begin
_LINES_OF_A_SUFFIX = 3


@record
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
    max_chars: int | None = None,
    max_tokens: int | None = None,
    room: bool = False,
    handle: str = "",
    in_part: bool = False,
    gone: str = "",
) -> str:
    """The suffix of S4 with these limits in it, and after it where the rest is, when that is known.

    `room` names the room that was left in the turn among what was exceeded. `handle` is for an output that is kept,
    with `in_part` not all of it, and `gone` the reason why one is not.
    """
    over = " or ".join(
        [
            *([_size(max_bytes)] if max_bytes is not None else []),
            *([f"{max_lines} line{'' if max_lines == 1 else 's'}"] if max_lines is not None else []),
            *([f"{max_chars} characters"] if max_chars is not None else []),
            *([f"{max_tokens} tokens"] if max_tokens is not None else []),
            *(["the room left in this turn"] if room else []),
        ]
    )
    rest = f"\n[{'not ' if in_part else ''}all of it is kept; handle: {handle}]" if handle else ""
    lost = f"\n[the rest was not kept and is gone: {one_line(gone, 300)}]" if gone else ""
    return f"{_LEAD}{MARK}exceeded {over or 'its limits'}{_ADVICE}{rest}{lost}"


def _size(number: int) -> str:
    if number and number % 1024 == 0:
        return f"{number // 1024}KB"
    return f"{number} byte{'' if number == 1 else 's'}"


SUFFIX = suffix_for(MAX_BYTES, MAX_LINES)


_LONE = lazy_pattern("[\ud800-\udfff]")


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
    it. So with a tag at hand a suffix is real when it ends the text and either no other is before it or it is tagged,
    and every other one is quoted.
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
    if max_bytes is not None:  # a character has a byte or more, and where one of several signs ends is near
        head = head[: max(0, max_bytes) + _NEAR]
    head = _LONE.sub("\ufffd", head)  # as many bytes: what a model reads is valid UTF-8
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
    # Of a block that is left out only a marker is there, with the suffix after it where it is the first.
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


# The clamp of a tool's result: a text, a list of content blocks, or an object that holds such a list.
#
# The budgets are shared across the text blocks in their order. The block in which they end is cut and has the suffix;
# each text block after it becomes a short marker that states its size. Everything else stays as it is and where it is.


_FEW = 100  # empty blocks
_AMPLE = 1024  # bytes; more than a marker takes
_STRUCTURED = ("structuredContent", "structured_content")


@record
class _Block:
    """A text block: where it is in the list, and what its text takes of the budgets."""

    at: int
    text: str
    bytes: int
    lines: int

    @property
    def marker(self) -> str:
        size = f"{plural(self.bytes, 'byte')} ({plural(line_count(self.text), 'line')})"
        return f"{MARK}a text block of {size} is left out]"


def clamp_result(result: object, limits: Limits, *, suffix: str | None = None, tag: str = "") -> object:
    """`result`, or a copy with less text in it. `suffix` and `tag` are those of `clamp_text`.

    Taken are a text, a text block, a list of blocks, and an object that holds one of these as results do: those of MCP
    and Bedrock, partial updates, messages of a chat. Any other value comes back as it is: the caller makes a text of it
    first. So does `structuredContent`; see `structured_content_of`.
    """
    if isinstance(result, list | tuple):
        blocks = cast("Sequence[object]", result)
        return _clamp_blocks(blocks, limits, suffix, tag) if any(is_block(block) for block in blocks) else blocks
    text = text_of(result)
    if text is not None:
        clamped = clamp_text(text, max_bytes=limits.bytes, max_lines=limits.lines, suffix=suffix, tag=tag)
        return with_text(result, clamped.text) if clamped.changed else result
    return _clamp_at(result, path_to_content(result) or ("content",), limits, suffix, tag)


def _clamp_at(value: object, path: Sequence[str], limits: Limits, suffix: str | None, tag: str) -> object:
    if len(path) == 1:
        return clamp_field(value, path[0], limits, suffix=suffix, tag=tag)
    inner = field(value, path[0])
    new = _clamp_at(inner, path[1:], limits, suffix, tag)
    return value if new is inner else with_field(value, path[0], new)


def clamp_field(value: object, name: str, limits: Limits, *, suffix: str | None = None, tag: str = "") -> object:
    """`value`, or a copy in which the text or the blocks in this field are clamped."""
    content = field(value, name)
    new = clamp_content(content, limits, suffix=suffix, tag=tag)
    return value if new is content else with_field(value, name, new)


def clamp_content(content: object, limits: Limits, *, suffix: str | None = None, tag: str = "") -> object:
    """A text or blocks, clamped; anything else as it is."""
    if isinstance(content, list | tuple):
        return _clamp_blocks(cast("Sequence[object]", content), limits, suffix, tag)
    return clamp_result(content, limits, suffix=suffix, tag=tag) if isinstance(content, str) else content


def structured_content_of(result: object) -> object:
    """The structured twin of a result's text, or None. A client may feed it to the model: it is decided by itself."""
    return field(result, *_STRUCTURED)


def with_structured_content(result: object, new: object) -> object:
    """A copy of `result` with another structured twin, under the name that it has there."""
    name = next((name for name in _STRUCTURED if field(result, name) is not None), _STRUCTURED[0])
    return with_field(result, name, new)


def _clamp_blocks(blocks: Sequence[object], limits: Limits, suffix: str | None, tag: str) -> Sequence[object]:
    ending = suffix_for(limits.bytes, limits.lines) if suffix is None else suffix
    found = list(map(text_of, blocks))
    # An empty one has nothing to give and stays; of very many each is the line that joining them makes it.
    crowded = found.count("") > _FEW
    texts = [
        _Block(at, text, byte_count(text), lines_shown(text, ending) if text else 1)
        for at, text in enumerate(found)
        if text or (text is not None and crowded)
    ]
    fits = limits.bytes is None or sum(block.bytes for block in texts) <= limits.bytes
    if fits and (limits.lines is None or sum(block.lines for block in texts) <= limits.lines):
        return blocks
    new = _new_texts(texts, limits, ending, tag)
    kept = [
        with_text(block, new[at] or "") if at in new else block
        for at, block in enumerate(blocks)
        if new.get(at, "") is not None
    ]
    return tuple(kept) if isinstance(blocks, tuple) else kept


def _new_texts(texts: Sequence[_Block], limits: Limits, suffix: str, tag: str) -> dict[int, str | None]:
    """The texts from the block on in which the budgets end, by their place; None for a block that has to go."""
    bytes_to = [0, *accumulate(block.bytes for block in texts)]
    lines_to = [0, *accumulate(block.lines for block in texts)]
    # Where a number does not decide, it is as large as it need be.
    max_bytes = 2 * bytes_to[-1] + _AMPLE * len(texts) if limits.bytes is None else limits.bytes
    max_lines = lines_to[-1] if limits.lines is None else limits.lines
    # A block before the last is whole only if the suffix and the markers have room after it.
    markers = _room_for_markers(texts, max_bytes)
    needed = [room and room + byte_count(suffix) for room in markers]
    number = next(
        number
        for number in range(len(texts))
        if lines_to[number + 1] > max_lines or bytes_to[number + 1] + needed[number] > max_bytes
    )
    last, room = texts[number], max_bytes - bytes_to[number] - markers[number]
    head, ending = cut(last.text, max_bytes=room, max_lines=max_lines - lines_to[number], suffix=suffix, tag=tag)
    if not head and byte_count(last.marker) + byte_count(ending) <= room:
        head = last.marker
    return {last.at: head + ending} | _left_out(texts[number + 1 :], max_bytes)


def _most_for_markers(max_bytes: int) -> int:
    return max_bytes // 4


def _room_for_markers(texts: Sequence[_Block], max_bytes: int) -> list[int]:
    """For each block the room that the markers of all later ones take."""
    sizes = [byte_count(block.marker) for block in texts]
    after = list(accumulate(reversed(sizes[1:]), initial=0))
    return [min(size, _most_for_markers(max_bytes)) for size in reversed(after)]


def _left_out(texts: Sequence[_Block], max_bytes: int) -> dict[int, str | None]:
    """A marker for each block; where they do not all fit, the last marker stands for all that follow, which go."""
    markers: dict[int, str | None] = {block.at: block.marker for block in texts}
    if sum(byte_count(block.marker) for block in texts) <= _most_for_markers(max_bytes):
        return markers
    room, rest = _most_for_markers(max_bytes), sum(block.bytes for block in texts)
    for number, block in enumerate(texts):
        verb = "is" if number == len(texts) - 1 else "are"
        for_all = f"{MARK}{plural(len(texts) - number, 'text block')} of {plural(rest, 'byte')} {verb} left out]"
        room -= byte_count(block.marker)
        if room < byte_count(for_all):
            markers[block.at] = fitting(for_all, room + byte_count(block.marker)).strip()
            return markers | {later.at: None for later in texts[number + 1 :]}
        rest -= block.bytes
    return markers


# What is shown of an error, and what is kept of it.
#
# The model reads the type and the message, clamped; the traceback is for the facts. Messages are gathered only until
# there is more than can be shown, so a group of a thousand errors costs no more than one.


_GROUP_DEPTH = 64  # levels of nested groups; Python writes them by recursion
_GROUP_WIDTH = 10_000


def clamp_error(error: BaseException, limits: Limits, *, suffix: str | None = None, tag: str = "") -> str:
    """`ValueError: message`, with the messages of a group's members on lines of their own, within the limits."""
    shown = _messages(error, most=limits.bytes)
    return clamp_text(shown, max_bytes=limits.bytes, max_lines=limits.lines, suffix=suffix, tag=tag).text


def traceback_of(error: BaseException) -> str:
    """All of it as Python writes it, with its causes and the members of groups."""
    whole = traceback.TracebackException(
        type(error), error, error.__traceback__, max_group_depth=_GROUP_DEPTH, max_group_width=_GROUP_WIDTH
    )
    try:
        return "".join(whole.format())
    except RecursionError:  # called from deep down: as much as Python writes by itself
        return "".join(traceback.format_exception(error))


def _messages(error: BaseException, *, most: int | None) -> str:
    lines: list[str] = []
    length = 0
    waiting: list[tuple[int, BaseException]] = [(0, error)]
    while waiting and (most is None or length <= most):
        depth, one = waiting.pop()
        line = "  " * min(depth, _GROUP_DEPTH) + _message(one)
        lines.append(line)
        length += len(line) + 1
        if isinstance(one, BaseExceptionGroup):
            members = cast("BaseExceptionGroup[BaseException]", one).exceptions
            waiting.extend((depth + 1, member) for member in reversed(members))
    return "\n".join(lines)


def _message(error: BaseException) -> str:
    name = type(error).__name__
    try:
        message = str(error)
    except Exception as problem:  # str() of an error may raise; ignore that here
        message = f"(its message could not be read: {type(problem).__name__})"
    if isinstance(error, BadReference | BadCall):  # the model's own mistake, and not the tool's
        return message
    return f"{name}: {message}" if message else name


# The guard before a transcript is kept: every tool result in it within the limits, all else as it is.
#
# Which messages hold results, and where, is known by `messages`.


Message = TypeVar("Message")


def clamp_messages(messages: list[Message], limits: Limits, *, tag: str = "") -> list[Message]:
    """The same list, or a new one with the oversized results clamped; all other messages are the same objects."""
    guarded = [cast("Message", _guarded(message, limits, tag)) for message in messages]
    changed = any(new is not old for new, old in zip(guarded, messages, strict=True))
    return guarded if changed else messages


def _guarded(message: object, limits: Limits, tag: str) -> object:
    for result in results_in(message):
        new = clamp_content(result.content, limits, tag=tag)
        if new is not result.content:
            message = result.replaced(message, new)
    return message
