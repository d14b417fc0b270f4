"""What a small model on a small machine can be asked about: a few pieces of each output, in place of all of it.

The lines around the evidence of every question, and lines from all over the output beside them, in their order and as
they are. Every way to answer gets the same.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bench.answers.judge import ranges
from bench.answers.tasks import Collection, Output, Task
from holdall.values.spans import Span

PIECE = 400  # bytes of one piece, at least


@dataclass(frozen=True, slots=True)
class Cut:
    """A part of an output, and the questions about it; their evidence by its place in the part."""

    output: Output
    tasks: tuple[Task, ...]
    whole: int  # bytes of the output


def cuts(collection: Collection, kind: str, size: int) -> list[Cut]:
    """One for each output that has questions of this kind. Evidence that is too long for it is left out."""
    made: list[Cut] = []
    for output in collection.outputs.values():
        tasks = [task for task in collection.tasks if task.output == output.id and task.type == kind and task.where]
        if short := [task for task in tasks if _evidence(task) <= size // 4]:
            made.append(cut(output, short, size))
    return made


def cut(output: Output, tasks: Sequence[Task], size: int) -> Cut:
    """About `size` bytes, more where the evidence alone is more."""
    data = output.data
    taken = ranges(_around(data, span) for task in tasks for span in task.where)
    number = max(1, (size - taken.bytes()) // PIECE)
    for place in sorted(range(number), key=lambda place: f"{place:b}"[::-1]):  # however few, from all over
        if taken.bytes() < size:
            middle = len(data) * (2 * place + 1) // (2 * number)
            taken.add(_around(data, Span(middle, middle)))
    pieces = [Span(start, end) for start, end in taken.as_lists()]
    part = b"".join(data[piece.start : piece.end] for piece in pieces)
    return Cut(replace(output, data=part), tuple(_moved(task, pieces) for task in tasks), len(data))


def _evidence(task: Task) -> int:
    return sum(span.end - span.start for span in task.where)


def _around(data: bytes, span: Span) -> Span:
    """The whole lines of a stretch, and lines before and after it until they are a piece."""
    start, end = data.rfind(b"\n", 0, span.start) + 1, _line_end(data, span.end)
    while end - start < PIECE and (start > 0 or end < len(data)):
        start = data.rfind(b"\n", 0, max(0, start - 1)) + 1
        end = _line_end(data, end + 1) if end < len(data) and end - start < PIECE else end
    return Span(start, end)


def _line_end(data: bytes, at: int) -> int:
    """After the newline of the line that this byte is the end of, or is in."""
    newline = data.find(b"\n", max(0, at - 1))
    return len(data) if newline < 0 else newline + 1


def _moved(task: Task, pieces: Sequence[Span]) -> Task:
    where = tuple(_places(task, pieces))
    return replace(task, where=where, last=max(span.end for span in where))


def _places(task: Task, pieces: Sequence[Span]) -> Iterator[Span]:
    for span in task.where:
        before = 0
        for piece in pieces:
            if piece.start <= span.start and span.end <= piece.end:
                start = before + span.start - piece.start
                yield Span(start, start + span.end - span.start)
            before += piece.end - piece.start
