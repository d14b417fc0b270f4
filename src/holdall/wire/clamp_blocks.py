"""The clamp of a tool's result: a text, a list of content blocks, or an object that holds such a list.

The budgets are shared across the text blocks in their order. The block in which they end is cut and has the suffix;
each text block after it becomes a short marker that states its size. Everything else stays as it is and where it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import cast

from holdall.policy.decide import Limits
from holdall.text.excerpt import byte_count, line_count
from holdall.text.numbers import plural
from holdall.wire.blocks import is_block, text_of, with_text
from holdall.wire.clamp_fields import field, with_field
from holdall.wire.clamp_text import MARK, clamp_text, cut, fitting, lines_shown, suffix_for

_AMPLE = 1024  # bytes; more than a marker takes
_STRUCTURED = ("structuredContent", "structured_content")


@dataclass(frozen=True, slots=True)
class _Block:
    """A text block: where it stands in the list, and what its text takes of the budgets."""

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

    Taken are a text, a text block, a list of blocks, and an object with `content` that is one of these: MCP's results,
    partial updates, messages of a chat. Any other value comes back as it is: the caller makes a text of it first. So
    does `structuredContent`; see `structured_content_of`.
    """
    if isinstance(result, list | tuple):
        blocks = cast("Sequence[object]", result)
        return _clamp_blocks(blocks, limits, suffix, tag) if any(is_block(block) for block in blocks) else blocks
    text = text_of(result)
    if text is not None:
        clamped = clamp_text(text, max_bytes=limits.bytes, max_lines=limits.lines, suffix=suffix, tag=tag)
        return with_text(result, clamped.text) if clamped.changed else result
    return clamp_field(result, "content", limits, suffix=suffix, tag=tag)


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
    texts = [
        _Block(at, text, byte_count(text), lines_shown(text, ending))
        for at, text in enumerate(map(text_of, blocks))
        if text  # an empty one has nothing to give and stays
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
