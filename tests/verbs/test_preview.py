"""What a notice is built from: errors with what is around them, where each of them is, what is worth reading first, and
whether all of an output would fit.
"""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdall.formats import Outline, Room
from holdall.policy.decide import Limits
from holdall.store.deadline import within
from holdall.store.reader import FileReader
from holdall.text.tokens import Estimate
from holdall.values.spans import Span
from holdall.verbs import preview
from holdall.verbs.preview import notice_view, whole_text, with_paragraphs
from holdall.wire.dialect import View
from holdall.wire.notice import READ_TOKENS, counter
from tests.bag.test_deadline import ticking
from tests.support import reader_of

ERROR = "ERROR: it broke"


def seen(reader: FileReader, *, tokens: int = 300) -> View:
    return notice_view(reader, lambda: "7d1a7d1a", tokenizer=Estimate(), most_tokens=tokens)


def paragraphs(reader: FileReader, *, room: int = 1000, tag: str = "7d1a7d1a") -> View:
    return with_paragraphs(reader, replace(seen(reader), snippet_bytes=room), lambda: tag)


WORDS = st.integers(0, 90).map(lambda length: ("some words " * 9)[:length].rstrip())


@given(st.lists(WORDS, max_size=12), st.integers(0, 1000), st.lists(WORDS, max_size=24))
@example(["w", "", "x" * 397], 0, [])
@example(["w", "x" * 399], 0, [])
@example(["x" * 393], 0, [])
@example(["w", "x" * 398], 0, [])
@example([], 784, ["after"])
@example([], 785, ["after"])
def test_an_error_is_shown_with_the_lines_around_it_up_to_blank_ones(
    before: list[str], length: int, after: list[str]
) -> None:
    text = "".join(f"{line}\n" for line in ("first", *before, ERROR + "!" * length, *after))
    view = paragraphs(reader_of(text.encode()))
    at = text.index(ERROR)
    starts = [0, *(place + 1 for place in range(at) if text[place] == "\n")]
    near = [one for one in starts if at <= 400 or one > at - 400]
    start = next(one for one in near if text[one] != "\n" and "\n\n" not in text[one:at])
    end = text.find("\n\n", at, at + 800)
    if end < 0:
        cut = text[at : at + 800]
        end = at + (cut.rfind("\n") if len(cut) == 800 and "\n" in cut else len(cut))
    shown = text[start:end].rstrip("\n")
    assert view.errors == ((text.count("\n", 0, start) + 1, shown + ("" if "\n" in text[at : at + 800] else "…")),)
    (span,) = view.error_spans
    assert text[span.start : span.end] == shown
    assert (view.more_errors, view.at_least) == (0, False)


def _broken(*numbers: int, lines: int = 400) -> FileReader:
    """A log in which these lines are errors, each in a paragraph of its own."""
    told = (
        f"\nERROR in part {number:03}\n\n" if number in numbers else f"line {number:03}\n" for number in range(lines)
    )
    return reader_of("".join(told).encode())


def test_as_many_errors_are_shown_as_there_is_room_for_in_their_order_and_the_others_are_counted() -> None:
    reader = _broken(*range(10, 400, 20))
    told = [f"ERROR in part {number:03}" for number in range(10, 400, 20)]
    for room, number in ((0, 1), (33, 1), (34, 2), (67, 3), (68, 4), (10_000, 20)):  # one is shown in any case
        view = paragraphs(reader, room=room)
        assert ([text for _, text in view.errors], view.more_errors) == (told[:number], 20 - number)


def test_three_errors_that_tell_most_are_shown_in_any_case() -> None:
    told = ("disk /dev/sda1 is full", "connection refused by host", "no such table: users", "certificate has expired")
    text = "".join("a line\n" * 90 + f"\nERROR: {one}\n\n" for one in told)
    assert len(paragraphs(reader_of(text.encode()), room=0).errors) == 3
    assert len(paragraphs(reader_of(text.encode()), room=1000).errors) == 4


def test_errors_of_one_paragraph_are_shown_once_and_none_of_them_is_left_over() -> None:
    data = b"line\n" * 300 + b"\nERROR: one\nERROR: two\nERROR: three\n\n" + b"line\n" * 300
    view = paragraphs(reader_of(data))
    assert [text for _, text in view.errors] == ["ERROR: one\nERROR: two\nERROR: three"]
    assert view.more_errors == 0


def test_errors_are_counted_in_both_ends_of_a_large_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """So many bytes of each; what is between is not looked at."""
    reader = _broken(*range(0, 400, 20))
    data = reader.read(0, reader.totals.bytes)
    for searched in (len(data) // 2 + 1, len(data) // 2 - 200, 1000, 700):
        monkeypatch.setattr(preview, "_SEARCHED", searched)
        view = paragraphs(reader, room=10_000)
        ends = (data,) if len(data) <= 2 * searched else (data[:searched], data[-searched:])
        assert len(view.errors) + view.more_errors == sum(end.count(b"\nERROR") for end in ends)
        assert view.at_least is (len(ends) == 2)


def test_a_blank_beginning_is_no_part_of_the_first_paragraph() -> None:
    assert paragraphs(reader_of(f"\n\n{ERROR}\n".encode())).errors == ((3, ERROR),)


def test_the_tag_occurs_in_nothing_that_is_shown() -> None:
    reader = reader_of(b"line\n" * 3000 + b"\nERROR: 7d1a7d1a\n\n" + b"line\n" * 3000)
    view = replace(seen(reader), tag="7d1a7d1a")
    assert with_paragraphs(reader, view, lambda: "aaaaaaaa").tag == "aaaaaaaa"
    assert with_paragraphs(reader, replace(view, tag="bbbbbbbb"), lambda: "aaaaaaaa").tag == "bbbbbbbb"
    for end in ("head", "tail"):
        shown = replace(view, tag="cccccccc", head=b"", tail=b"")
        shown = replace(shown, head=b"cccccccc") if end == "head" else replace(shown, tail=b"cccccccc")
        assert with_paragraphs(reader, shown, lambda: "aaaaaaaa").tag == "aaaaaaaa"


LOG = [f"2026-01-01 10:{number // 60:02}:{number % 60:02} INFO request {number} served\n" for number in range(2000)]


def _log(**lines: str) -> FileReader:
    told = list(LOG)
    for name, line in lines.items():
        told[int(name.removeprefix("l")) - 1] = line + "\n"
    return reader_of("".join(told).encode())


@pytest.mark.parametrize("indent", [0, 64])
def test_each_error_of_a_notice_is_where_it_says(indent: int) -> None:
    reader = _log(l701=" " * indent + "ERROR connection refused", l1501="ERROR " + "very " * 99 + "long")
    for tokens, longest in ((300, 88), (400, 200)):
        view = seen(reader, tokens=tokens)
        assert [line for line, _ in view.errors] == [701, 1501]
        assert longest - 2 <= len(view.errors[1][1].encode()) <= longest + 2
        for (_, text), span in zip(view.errors, view.error_spans, strict=True):
            assert reader.read(span.start, span.end).decode() == text.removesuffix("…")
            assert span.end > span.start


def test_an_error_that_is_not_shown_as_it_is_stored_has_no_place() -> None:
    for line in ("ERROR \x1b[31mconnection\x1b[0m refused", " " * 65 + "ERROR far to the right"):
        (span,) = seen(_log(l701=line)).error_spans
        assert span.start == span.end == sum(map(len, LOG[:700]))


def test_lines_of_an_outline_that_quote_the_output_are_where_they_say() -> None:
    lines = [f"src/m{n}.c:{n}:5: {'error' if n % 90 == 7 else 'warning'}: unused variable 'v{n}'" for n in range(1000)]
    view = seen(reader := reader_of("".join(f"{line}\n" for line in lines).encode()))
    assert view.outline
    quoted = [(line, span) for line, span in zip(view.outline.lines, view.outline_spans, strict=True) if span.end]
    assert len(quoted) > 1
    for line, span in quoted:
        number, _, text = line.partition(" ")
        assert reader.read(span.start, span.end).decode() == text.removesuffix("…")
        assert lines[int(number.removeprefix("L").replace(",", "")) - 1].startswith(text.removesuffix("…"))


def test_a_line_of_an_outline_that_is_put_together_has_no_place() -> None:
    failed = "".join(
        f'Traceback (most recent call last):\n  File "b.py", line {n}, in run\nKeyError: {n}\n' for n in range(500)
    )
    view = seen(reader_of(failed.encode()))
    assert view.outline
    assert any(line.startswith("L") for line in view.outline.lines)
    assert all(span.start == span.end for span in view.outline_spans)


def test_what_is_worth_reading_is_an_error_with_five_lines_on_both_sides() -> None:
    assert seen(_log(l701="ERROR connection refused")).near == (696, 706)
    assert seen(_log(l3="ERROR connection refused")).near == (1, 8)
    assert seen(_log(l1998="ERROR connection refused")).near == (1993, 2000)
    assert seen(_log()).near is None
    assert seen(_log(l701="ERROR " + "x" * 5000)).near is None  # the place in a long line may be anywhere


@pytest.mark.parametrize(("length", "is_near"), [(375, True), (376, False)])
def test_what_is_worth_reading_has_at_most_four_kilobytes(length: int, is_near: bool) -> None:
    """Blanks are few tokens: eleven lines of 372 bytes, and four bytes more."""
    told = [f"{number} word".ljust(371) for number in range(200)]
    told[100] = "ERROR word".ljust(length)
    view = seen(reader_of("".join(f"{line}\n" for line in told).encode()))
    assert view.near == ((96, 106) if is_near else None)


@pytest.mark.parametrize("every", [1, 2, 3])
@pytest.mark.parametrize("words", [1, 8, 13, 16, 25, 30, 50, 80, 100, 150])
def test_what_is_worth_reading_fits_into_a_short_answer(words: int, every: int) -> None:
    told = [f"{number} {'some words ' * (1 if number % every else words)}" for number in range(200)]
    told[100] = f"ERROR {told[100]}"
    count = counter(Estimate())

    def fitting(lines: list[str], most: int) -> int:
        """How many of the first ones have so few tokens."""
        return sum(sum(count(one) + 1 for one in lines[: number + 1]) <= most for number in range(len(lines)))

    before = min(fitting(told[99:94:-1], READ_TOKENS // 2), 5)
    after = fitting(told[100:106], READ_TOKENS - sum(map(count, told[100 - before : 100])))
    view = seen(reader_of("".join(f"{line}\n" for line in told).encode()))
    assert view.near == ((101 - before, 100 + after) if after else None)


@pytest.mark.parametrize(
    ("limits", "fits"),
    [
        (Limits(bytes=12), True),
        (Limits(bytes=11), False),
        (Limits(lines=2), True),
        (Limits(lines=1), False),
        (Limits(chars=11), True),
        (Limits(chars=10), False),
        (Limits(), True),
    ],
)
def test_the_whole_text_is_there_where_it_is_inside_the_limits(limits: Limits, fits: bool) -> None:
    text = "zwölf\nzehn\n"
    assert whole_text(reader_of(text.encode()), limits, Estimate()) == (text if fits else None)


def test_the_whole_text_is_there_of_what_is_whole_and_text() -> None:
    reader = reader_of(b"so far")
    assert whole_text(reader_of(b"a\xff"), Limits(), Estimate()) is None
    reader.facts = replace(reader.facts, state="failed", error="it broke")
    assert whole_text(reader, Limits(), Estimate()) is None
    assert whole_text(reader, Limits(), Estimate(), in_part=True) == "so far"


def test_what_is_much_larger_than_its_limits_is_not_read() -> None:
    reader = reader_of(b"x" * 1281)
    reader.read = lambda start, end: pytest.fail("read")
    for limits in (Limits(tokens=10), Limits(chars=10), Limits(bytes=1280)):
        assert whole_text(reader, limits, Estimate()) is None


def test_of_a_short_text_both_ends_are_all_of_it() -> None:
    view = seen(reader_of(b"abc"))
    assert (view.head, view.tail, view.extracts) == (b"abc", b"abc", False)
    text = "word " * 80
    assert whole_text(reader_of(text.encode()), Limits(tokens=200), Estimate()) == text


# With an outline of the test's own


def telling(
    *lines: str, errors: tuple[tuple[int, str], ...] = (), ranges: tuple[tuple[int, int, str], ...] = ()
) -> Callable[..., Outline]:
    def made(*_: object, **__: object) -> Outline:
        return Outline("text", lines, False, errors, ranges)

    return made


def outlining(monkeypatch: pytest.MonkeyPatch, data: bytes, made: Callable[..., Outline | None], **given: int) -> View:
    monkeypatch.setattr(preview, "outline", made)
    return seen(reader_of(data), **given)


@pytest.mark.parametrize(
    ("data", "tokens", "size"),
    [
        (b'{"a": 1}', 300, (300 - 60 - 36) * 0.8 * 1.2),
        (b"plain words\n", 300, (300 - 60 - 36) * 0.48 * 1.2),
        (b"plain words\n", 100, 25),
    ],
    ids=["json", "text", "little"],
)
def test_an_outline_has_a_share_of_the_notice(
    monkeypatch: pytest.MonkeyPatch, data: bytes, tokens: int, size: float
) -> None:
    rooms: list[Room] = []

    def made(*_: object, room: Room, **__: object) -> None:
        rooms.append(room)

    outlining(monkeypatch, data, made, tokens=tokens)
    assert [room.size for room in rooms] == [pytest.approx(size)]


QUOTING = [
    ("L1 1234567", b"  1234567 x\n", Span(0, 0)),
    ("L1 12345678", b"  12345678 x\n", Span(2, 10)),
    ("L2 × 3   1234 5678…", b"a\n  1234  56789\n", Span(4, 14)),
    ("L2 other words", b"a\n  1234  56789\n", Span(2, 2)),
    ("12345678", b"12345678\n", Span(0, 0)),
    ("L1 12345678", b" " * 1992 + b"12345678\n", Span(1992, 2000)),
    ("L1 12345678", b" " * 1993 + b"12345678\n", Span(0, 0)),
]


@pytest.mark.parametrize(("told", "data", "span"), QUOTING)
def test_what_an_outline_quotes_is_found_unless_it_is_short_or_far_off(
    monkeypatch: pytest.MonkeyPatch, told: str, data: bytes, span: Span
) -> None:
    view = outlining(monkeypatch, data, telling(told))
    assert view.outline_spans == (span,)


def test_the_tag_occurs_in_no_line_of_the_outline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview, "outline", telling("7d1a7d1a"))
    tags = iter(["7d1a7d1a", "aaaaaaaa"])
    assert notice_view(reader_of(b"words\n"), lambda: next(tags), tokenizer=Estimate()).tag == "aaaaaaaa"


def test_an_outline_that_cannot_be_made_is_left_out_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> Outline:
        raise ValueError("a bug")

    with pytest.warns(UserWarning, match="could not outline an output: ValueError\\('a bug'\\)") as told:
        assert outlining(monkeypatch, b"words\n", broken).outline is None
    assert told[0].filename == preview.__file__


def test_stored_bytes_that_cannot_be_read_are_an_error_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(*_: object, **__: object) -> Outline:
        raise OSError("a bad disk")

    with pytest.raises(OSError, match="a bad disk"):
        outlining(monkeypatch, b"words\n", unreadable)


@pytest.mark.parametrize("by", ["read", "count"])
@pytest.mark.parametrize(("seconds", "ends"), [(5.0, True), (5.1, False)])
def test_an_outline_that_takes_the_processor_for_long_is_left_out(
    monkeypatch: pytest.MonkeyPatch, by: str, seconds: float, ends: bool
) -> None:
    def slow(read: Callable[[int, int], bytes], *_: object, room: Room, **__: object) -> Outline:
        read(0, 1) if by == "read" else room.cost("words")
        return Outline("text", (), False, ())

    clock = iter([100.0, 100.0 + seconds])
    monkeypatch.setattr(preview, "time", SimpleNamespace(thread_time=lambda: next(clock)))
    assert (outlining(monkeypatch, b"words\n", slow).outline is not None) is ends


def test_an_outline_ends_at_the_deadline_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object, room: Room, **__: object) -> Outline:
        for number in range(100):
            room.cost(f"{number} words")
        return Outline("text", (), False, ())

    assert outlining(monkeypatch, b"words\n", slow).outline is not None
    with within(ticking(50)):
        assert outlining(monkeypatch, b"words\n", slow).outline is None


@pytest.mark.parametrize(
    ("data", "at", "near"),
    [
        (b"\nit broke\nafter\n", 1, (1, 3)),
        (b"x" * 5000 + b"\na\nb\nit broke\nafter\n", 5005, (2, 5)),
        (b"it broke\n" * 20, 0, (1, 6)),
    ],
    ids=["an empty line", "a long line", "the first line"],
)
def test_what_is_near_an_error_are_whole_lines(
    monkeypatch: pytest.MonkeyPatch, data: bytes, at: int, near: tuple[int, int]
) -> None:
    assert outlining(monkeypatch, data, telling(errors=((at, "it broke"),))).near == near


def test_a_short_answer_is_filled_to_its_last_token(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outlining(monkeypatch, b"\n" * 1000, telling(ranges=((0, 1000, "blank"),))).near == (1, READ_TOKENS)


PLAIN = [f"plain words {number}" for number in range(4)]


def _around(room: int, *more: str) -> list[str]:
    """What is shown where an outline names plain lines as errors, and `more` are in paragraphs of their own."""
    text = "".join(f"{line}\n\n" for line in (*more, *PLAIN))
    reader = reader_of(text.encode())
    named = Outline("text", (), False, tuple((text.index(line), line) for line in PLAIN))
    view = replace(seen(reader), outline=named, snippet_bytes=room)
    return [shown for _, shown in with_paragraphs(reader, view, lambda: "7d1a7d1a").errors]


def test_what_an_outline_names_counts_as_much_as_what_looks_like_an_error() -> None:
    first = sum(map(len, PLAIN[:3]))
    assert _around(0) == PLAIN[:3]
    assert _around(1000) == PLAIN
    worse = "FATAL: it broke"
    assert _around(1000, worse) == [worse, *PLAIN]
    assert _around(first + len(worse), worse) == [worse, *PLAIN[:3]]
    assert _around(first + len(worse) - 1, worse) == PLAIN[:3]


@pytest.mark.parametrize(("longer", "at_least"), [(0, False), (1, True)])
def test_errors_are_counted_at_least_only_where_not_all_was_searched(
    monkeypatch: pytest.MonkeyPatch, longer: int, at_least: bool
) -> None:
    data = b"line\n" * 300 + b"ERROR: it broke\n" + b"x" * (longer + 2)
    monkeypatch.setattr(preview, "_SEARCHED", (len(data) - longer) // 2)
    assert paragraphs(reader_of(data)).at_least is at_least
