"""Whether a model has seen what the answer to a question rests on. Here, and only here, the right answer is known.

Seen are evidence bytes that stood word for word in what the model read. What a tool computed over the whole output
counts too: a count, a group or a query is evidence that no byte range could be. docs/benchmarks.md states the rules.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from bench.answers.question import words_of
from bench.answers.reading import Reply
from bench.answers.tasks import Task
from holdall.policy.folds import Ranges
from holdall.values.spans import Span

How = Literal["bytes", "computed", "notice", ""]

_MEMBER = re.compile(rb'"(?:[^"\\]|\\.)*"\s*:\s*')
_COUNTED = ("count", "aggregate", "compare")
_FEW_WORDS, _OTHER_NUMBERS = 300, 2
_AROUND = 40  # characters of a group besides what is asked for: `"level": "error"`
_NOTHING = re.compile(
    r"\bnot found\b|\bno (such|match|occurrence)|\b(does|do|did|is|are|was|were) not\b|\bnone\b", re.IGNORECASE
)
_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?![\d.]*\w)")
_EXACT_NUMBER = re.compile(r"(?<![~\w.,])\d[\d,]*(?![\d.]*\w)")


def verdict(task: Task, data: bytes, shown: Ranges, *, notice: str = "", replies: Sequence[Reply] = ()) -> How:
    """By which rule the evidence was seen; empty if it was not."""
    shown = shown.copy()
    for reply in replies:
        for span in _lines_shown(reply, data):
            shown.add(span)
    if _by_bytes(task, data, shown):
        return "bytes"
    if any(_computed(task, reply) for reply in replies):
        return "computed"
    return "notice" if _told(task, notice) else ""


def answers(task: Task, text: str) -> bool:
    """Whether a model's own words state the right answer. Who goes on talking says everything in the end: what comes
    after the first few hundred characters does not count, nor does one of many numbers where one is asked for."""
    room = _FEW_WORDS + sum(map(len, task.gold))
    said = text.strip()[:room]
    if task.type == "absent":
        return bool(_NOTHING.search(said))
    if task.type == "count":
        numbers = {number.replace(",", "") for number in _NUMBER.findall(said)}
        given = {number.replace(",", "") for number in _NUMBER.findall(task.question)}
        return task.gold[0] in numbers and len(numbers - given - {*task.gold}) <= _OTHER_NUMBERS
    return all(stated(said, gold) for gold in task.gold)


def stated(text: str, gold: str) -> bool:
    """A number inside a longer one, or a word inside another, does not count; a unit may follow a number."""
    before = r"(?<![\w.])" if gold[:1].isascii() and gold[:1].isalnum() else ""
    after = (
        r"(?!\d|[.,]\d)" if gold[-1:].isdigit() else r"(?!\w)" if gold[-1:].isascii() and gold[-1:].isalnum() else ""
    )
    return re.search(before + re.escape(gold) + after, text, re.IGNORECASE) is not None


def ranges(spans: Iterable[Span]) -> Ranges:
    merged = Ranges()
    for span in spans:
        merged.add(span)
    return merged


def _by_bytes(task: Task, data: bytes, shown: Ranges) -> bool:
    if task.require == "whole":
        return shown.covers(Span(0, len(data)))
    seen = (_covers(shown, span, data) for span in task.where)
    if task.require == "any":
        return any(seen)
    at_end = task.last is None or shown.covers(Span(task.last - 1, task.last))
    return at_end and bool(task.where) and all(seen)


def _covers(shown: Ranges, span: Span, data: bytes) -> bool:
    """All of its bytes. Of a JSON member, its value: the path in the answer names the rest."""
    member = _MEMBER.match(data[span.start : span.end])
    return shown.covers(span) or bool(member and shown.covers(Span(span.start + member.end(), span.end)))


def _lines_shown(reply: Reply, data: bytes) -> Iterator[Span]:
    """Lines that an answer of SQL gives by their number, as far as they are in it word for word."""
    if not reply.lines:
        return
    starts = [0, *(newline.end() for newline in re.finditer(rb"\n", data))]
    for line, text in reply.lines:
        start, shown = starts[line - 1], text.removesuffix("…").encode()
        if data[start : start + len(shown)] == shown:
            yield Span(start, start + len(shown))


def _computed(task: Task, reply: Reply) -> bool:
    """Whether this answer, computed over the whole output, states what is asked for."""
    if reply.is_error:
        return False
    values = [_plain(value) for _, value in reply.groups]
    cells = [[_plain(cell) for cell in row] for row in reply.rows]
    match task.type:
        case "absent":
            return _would_have_found(reply, task.absent) and reply.total == 0
        case "count":
            return int(task.gold[0]) in reply.figures
        case "aggregate":  # the one that comes first, not any of those listed; a few words may be around it
            first = [*values[:1], *(cells[0] if cells else ())]
            return any(stated(value, task.gold[0]) for value in first if len(value) <= len(task.gold[0]) + _AROUND)
        case "compare":  # with whatever it is compared with beside it
            return len(cells) > 1 and any(task.gold[0] in row for row in cells)
        case _:
            return {*task.gold} <= {*values, *(cell for row in cells for cell in row)}


def _plain(cell: str) -> str:
    return cell.strip().removeprefix('"').removesuffix('"')


def _would_have_found(reply: Reply, text: str) -> bool:
    """Whether a search that found nothing would have found `text`, had it been there."""
    if reply.tool != "context_grep":
        return False
    pattern = str(reply.arguments["pattern"])
    pattern = re.escape(pattern) if reply.arguments.get("literal") else pattern
    return bool(re.search(pattern, text, re.IGNORECASE if reply.arguments.get("ignore_case") else 0))


def _told(task: Task, notice: str) -> bool:
    """An outline counts exactly, unless it says ~: the figure and a word of the question in one line of it."""
    if task.type not in _COUNTED or len(task.gold) != 1:
        return False
    asked = words_of(task.question)
    for line in notice.split("\n"):
        if task.type == "count":
            stated = task.gold[0] in {number.replace(",", "") for number in _EXACT_NUMBER.findall(line)}
        else:
            stated = re.search(rf"(?<!\w){re.escape(task.gold[0])}\W* ×", line) is not None
        if stated and asked & words_of(line):
            return True
    return False
