"""grep: what is found, where it is said to be, what is shown of it, and how the answer stays small."""

import base64
import itertools
import json
import os
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.search.ripgrep import LONG_VALUE, MAX_VALUES
from holdall.store import deadline
from holdall.store.protocol import OutputReader
from holdall.values.answers import Found, Group
from holdall.values.errors import BadRange, OutputDamaged
from holdall.values.settings import Settings
from holdall.values.spans import BLOCK, Span
from holdall.verbs.grep import grep, grep_bounded
from holdall.verbs.read import UNBOUNDED, Bounds, read
from holdall.verbs.read import slice as cut
from tests.requirements import requirement
from tests.support import reader_of

LOG = b"""\
10:00 sshd: Failed password for root from 10.0.0.1
10:01 sshd: Accepted password for ubuntu from 10.0.0.2
10:02 sshd: Failed password for admin from 10.0.0.1
10:03 cron: session opened
10:04 sshd: Failed password for root from 10.0.0.3; root again
"""


def shown_bytes(found: Found) -> int:
    return sum(
        len(text.encode()) for match in found.matches for text in (match.text, *match.before, *match.after)
    ) + sum(len(group.value.encode()) for group in found.groups)


def spans(found: Found) -> list[Span]:
    """Where every match is that is in what is shown."""
    return [span for match in found.matches for span in (Span(match.byte, match.end), *match.others)]


def places(found: Found) -> list[int]:
    return [span.start for span in spans(found)]


def pages(
    reader: OutputReader, pattern: str, *, limit: int = 100, max_bytes: int | None = 16384, **more: Any
) -> list[Found]:
    """Follow `next` to the end."""
    found = [grep(reader, pattern, limit=limit, max_bytes=max_bytes, **more)]
    while (start := found[-1].next) is not None:
        found.append(grep(reader, pattern, limit=limit, max_bytes=max_bytes, start=start, **more))
    return found


@requirement("grep:regex", "grep:line-numbers", "grep:several-in-a-line")
def test_every_match_is_found_with_its_line_and_its_place() -> None:
    found = grep(reader_of(LOG), "roo.")
    assert [(match.line, match.match, match.byte, match.end, match.others) for match in found.matches] == [
        (1, "root", 32, 36, ()),
        (5, "root", 217, 221, (Span(237, 241),)),
    ]
    assert found.matches[0].text == "10:00 sshd: Failed password for root from 10.0.0.1"
    assert (found.total, found.lines, found.unit, found.next, found.totals.lines) == (3, 2, "matches", None, 5)


@requirement("grep:byte-offsets", "grep:char-offsets")
def test_read_by_bytes_and_slice_by_chars_land_on_the_match() -> None:
    reader = reader_of("żółw 漢字 😀 needle\nÅngström needle\n".encode() * 600)
    for match in grep(reader, "needle", limit=6000, max_bytes=None).matches[::37]:
        assert read(reader, bytes=(match.byte, match.end)).text == "needle"
        assert cut(reader, start=match.char, length=6).text == "needle"
        assert read(reader, lines=(match.line, match.line)).bytes.start <= match.byte


@requirement("grep:literal")
def test_a_literal_is_no_pattern() -> None:
    reader = reader_of(b"a.c abc\n(x)\n")
    assert [match.byte for match in grep(reader, "a.c", literal=True).matches] == [0]
    assert grep(reader, "(x)", literal=True).total == 1


@requirement("grep:ignore-case")
def test_case_can_be_ignored_and_offsets_are_those_of_the_stored_bytes() -> None:
    reader = reader_of("ÄRGER Ärger ärger \u212aelvin\n".encode())
    found = grep(reader, "ärger", ignore_case=True)
    assert [(match.byte, match.char, match.match) for match in found.matches] == [(0, 0, "ÄRGER")]
    assert places(found) == [0, 7, 14]
    assert [match.match for match in grep(reader, "KELVIN", ignore_case=True).matches] == ["\u212aelvin"]


@requirement("grep:nothing-found")
def test_nothing_found_is_an_answer_that_says_what_was_searched() -> None:
    found = grep(reader_of(LOG), "no such thing")
    assert (found.matches, found.total, found.next) == ((), 0, None)
    assert found.totals.as_dict() == {"bytes": 248, "chars": 248, "lines": 5}
    assert found.notes == snapshot(())


def test_an_empty_output_has_no_line_to_match() -> None:
    for pattern in ("a", "^$", "x*"):
        assert grep(reader_of(b""), pattern).total == 0
        assert grep(reader_of(b""), pattern, count=True).total == 0
        assert grep(reader_of(b""), pattern, group=True).total == 0


# ── Windows ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:window")
def test_a_needle_in_ten_megabytes_on_one_line_comes_as_a_window_of_less_than_four_kilobytes() -> None:
    hay = base64.b64encode(os.urandom(10 * 1024 * 1024 * 3 // 4))
    at = 6_469_722
    reader = reader_of(hay[:at] + b"--NEEDLE-20471--" + hay[at:])
    found = grep(reader, r"NEEDLE-(\d+)")
    (match,) = found.matches
    assert (match.byte, match.line, match.match) == (at + 2, 1, "NEEDLE-20471")
    assert (match.cut_left, match.cut_right) == (True, True)
    assert match.text.encode() == reader.read(match.text_byte, match.text_byte + len(match.text))
    assert "--NEEDLE-20471--" in match.text
    assert len(str(found.to_json())) < 4096


@requirement("grep:several-in-a-line", "grep:window")
def test_several_matches_in_one_long_line_each_have_their_own_window() -> None:
    data = (b"x" * 1000 + b"HIT") * 5 + b"x" * 1000
    found = grep(reader_of(data), "HIT")
    assert [match.byte for match in found.matches] == [1000, 2003, 3006, 4009, 5012]
    assert all(match.text == "x" * 160 + "HIT" + "x" * 160 for match in found.matches)


def test_a_line_of_four_hundred_bytes_is_shown_whole_and_one_more_is_not() -> None:
    for length, whole in ((400, True), (401, False)):
        line = b"x" * (length - 3) + b"HIT"
        (match,) = grep(reader_of(b"before\n" + line + b"\nafter\n"), "HIT").matches
        assert (len(match.text) == length) == whole
        assert (match.cut_left, match.cut_right) == (not whole, False)


def test_of_a_match_that_is_itself_too_long_the_beginning_is_shown() -> None:
    (match,) = grep(reader_of(b"<" + b"y" * 100_000 + b">\n"), "y+").matches
    assert (match.byte, match.end) == (1, 100_001)
    assert match.match == "y" * 400
    assert match.text == "<" + "y" * 560
    assert (match.cut_left, match.cut_right) == (False, True)


@given(st.lists(st.sampled_from(["a", "é", "漢", "😀", "x" * 50]), min_size=200, max_size=400), st.data())
def test_a_window_never_splits_a_character(parts: list[str], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(parts)))
    text = "".join(parts[:at]) + "HIT" + "".join(parts[at:])
    (match,) = grep(reader_of(text.encode()), "HIT", context=1).matches
    assert "\ufffd" not in match.text
    assert match.text in text
    assert text.encode()[match.text_byte :].startswith(match.text.encode())
    assert (match.cut_left, match.cut_right) == (not text.startswith(match.text), not text.endswith(match.text))
    assert match.char == text.index("HIT")


# ── Context ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:context")
def test_lines_of_context_stand_before_and_after_the_match() -> None:
    lines = [f"line {number}" for number in range(1, 10)]
    reader = reader_of("\r\n".join(lines).encode())
    (match,) = grep(reader, "line 5", context=2).matches
    assert (match.before, match.text, match.after) == (("line 3", "line 4"), "line 5", ("line 6", "line 7"))
    first, last = grep(reader, "line [19]$", context=3).matches
    assert (first.before, first.after) == ((), ("line 2", "line 3", "line 4"))
    assert (last.before, last.after) == (("line 6", "line 7", "line 8"), ())


@requirement("grep:before-after", "grep:line-once")
def test_lines_before_and_after_are_taken_apart_and_no_line_is_shown_twice() -> None:
    lines = [f"line {number}" for number in range(1, 20)]
    reader = reader_of("\n".join(lines).encode())
    (match,) = grep(reader, "line 5", before=2).matches
    assert (match.before, match.after) == (("line 3", "line 4"), ())
    (match,) = grep(reader, "line 5", context=1, after=3).matches
    assert (match.before, match.after) == (("line 4",), ("line 6", "line 7", "line 8"))
    near = grep(reader, "line [5679]$", context=2).matches
    assert [(match.before, match.text, match.after) for match in near] == [
        (("line 3", "line 4"), "line 5", ()),
        ((), "line 6", ()),
        ((), "line 7", ("line 8",)),
        ((), "line 9", ("line 10", "line 11")),
    ]


@requirement("grep:line-once")
@given(
    st.lists(st.sampled_from(["", "a", "hit", "hit hit", "z" * 900 + "hit", ("hit" + "z" * 170) * 5]), max_size=40),
    st.data(),
)
def test_whatever_is_asked_each_byte_is_shown_once_and_in_order(lines: list[str], data: st.DataObject) -> None:
    text = "\n".join(lines).encode()
    before, after, last = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 4)), data.draw(st.booleans())
    found = grep(reader_of(text), "hit", before=before, after=after, last=last)
    shown: list[Span] = []
    for match in found.matches:
        above, below = match.context[: len(match.before)], match.context[len(match.before) :]
        shown += [*above, Span(match.text_byte, match.text_end), *below]
        assert match.text == text[match.text_byte : match.text_end].decode()
    assert all(one.end < two.start or one.end == two.start > one.start for one, two in itertools.pairwise(shown))
    assert len(places(found)) == found.total == text.count(b"hit")
    assert found.lines == sum("hit" in line for line in lines)


@requirement("grep:last")
def test_last_shows_the_last_lines_in_their_order_and_goes_on_before_them() -> None:
    reader = reader_of(b"".join(b"%05d hit hit\n" % number for number in range(50_000)))
    found = grep(reader, "hit", last=True, limit=3)
    assert [match.line for match in found.matches] == [49_998, 49_999, 50_000]
    assert (found.total, found.lines, found.next) == (100_000, 50_000, found.matches[0].byte)
    earlier = grep(reader, "hit", last=True, limit=2, start=found.next or 0)
    assert [match.line for match in earlier.matches] == [49_996, 49_997]
    assert [len(match.others) for match in earlier.matches] == [1, 1]


def test_context_around_and_across_very_long_lines_is_cut_and_says_so() -> None:
    long = b"z" * 200_000
    reader = reader_of(long + b"\n" + long + b"HIT" + long + b"\n" + long + b"\nend")
    found = grep(reader, "HIT", context=2)
    (match,) = found.matches
    assert (match.before, match.after) == (("z" * 320,), ("z" * 320, "end"))
    assert shown_bytes(found) < 4096
    assert found.notes[1:] == snapshot(())


@pytest.mark.parametrize("lines", [("y" * 401, "short"), ("short", "y" * 401)])
def test_a_line_of_context_that_is_cut_is_told_wherever_it_is(lines: tuple[str, str]) -> None:
    found = grep(reader_of("\n".join([*lines, "hit"]).encode()), "hit", before=2)
    assert found.notes == ("some context is cut or left out; read shows it whole",)
    assert sorted(len(line) for line in found.matches[0].before) == [5, 320]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"needle \xff\n", True),
        (b"\xc3(\nneedle\n", True),  # only a line beside it
        ("needle \ufffd\n".encode(), False),  # the character itself is in the output
        (b"needle\n\xff\nanother\n\xff\n", False),  # what is not shown says nothing
    ],
)
def test_bytes_that_are_no_text_are_told_from_the_character_that_stands_for_them(data: bytes, said: bool) -> None:
    found = grep(reader_of(data), "needle", before=1)
    note = "bytes that are not text are shown as \ufffd"
    assert (note in found.notes) is said


def test_more_context_than_fits_is_left_out_from_the_far_ends_and_says_so() -> None:
    lines = [f"{number:04} {'x' * 90}" for number in range(2000)]
    found = grep(reader_of("\n".join(lines).encode()), "^1000", context=1000)
    (match,) = found.matches
    assert shown_bytes(found) <= 16384
    assert match.before == tuple(lines[1000 - len(match.before) : 1000])
    assert match.after == tuple(lines[1001 : 1001 + len(match.after)])
    assert min(len(match.before), len(match.after)) > 70
    assert len(found.notes) == 1


# ── Limits, and going on ────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:limit", "answer:how-to-go-on", "answer:totals")
@pytest.mark.parametrize(("limit", "max_bytes"), [(7, None), (100, 900), (1, 16384), (13, 2000)])
def test_going_on_from_next_shows_every_match_exactly_once(limit: int, max_bytes: int | None) -> None:
    data = b"".join(b"%d: hit hit %s\n" % (number, b"-" * (number * 37 % 500)) for number in range(60))
    reader = reader_of(data)
    found = pages(reader, "hit", limit=limit, max_bytes=max_bytes)
    everywhere = [at for at in range(len(data)) if data.startswith(b"hit", at)]
    assert [at for page in found for at in places(page)] == everywhere
    backwards = pages(reader, "hit", limit=limit, max_bytes=max_bytes, last=True)
    assert [at for page in reversed(backwards) for at in places(page)] == everywhere
    found += backwards
    assert {(page.total, page.lines) for page in found} == {(120, 60)}
    assert all(len(page.matches) <= limit for page in found)
    assert max_bytes is None or all(shown_bytes(page) <= max_bytes for page in found)


@requirement("grep:count", "grep:matches-and-lines")
@pytest.mark.parametrize("pattern", ["o", "root", "^", "zzz", r"\w+", "10|Fail"])
def test_count_is_the_total_is_the_number_of_matches(pattern: str) -> None:
    reader = reader_of(LOG)
    counted = grep(reader, pattern, count=True)
    listed = grep(reader, pattern, limit=1000, max_bytes=None)
    assert counted.matches == ()
    assert counted.total == listed.total == len(places(listed))
    assert counted.lines == listed.lines == len({match.line for match in listed.matches})
    assert grep(reader, pattern, group=True).lines == counted.lines


@requirement("grep:bad-number")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"context": -1}, "context must be 0 or more, not -1."),
        ({"context": 10**9}, "context must be from 0 to 1,000, not 1,000,000,000."),
        ({"context": "3"}, "context must be a whole number, not '3'."),
        ({"context": float("nan")}, "context must be a whole number, not nan."),
        ({"context": True}, "context must be a whole number, not True."),
        ({"limit": 0}, "limit must be 1 or more, not 0."),
        ({"limit": 10**9}, "limit must be from 1 to 100,000, not 1,000,000,000."),
        ({"limit": 2.0}, "limit must be a whole number, not 2.0."),
        ({"start": -1}, "start must be 0 or more, not -1."),
        ({"max_bytes": 10}, "max_bytes must be 200 or more, not 10."),
        ({"seconds": 0}, "seconds must be a number above 0, not 0."),
        ({"seconds": float("nan")}, "seconds must be a number above 0, not nan."),
        ({"seconds": "5"}, "seconds must be a number above 0, not '5'."),
    ],
)
def test_a_number_that_is_none_or_absurd_is_refused_with_the_rule(options: dict[str, object], complaint: str) -> None:
    with pytest.raises(BadRange) as refused:
        grep(reader_of(LOG), "a", **options)  # pyright: ignore[reportArgumentType]
    assert str(refused.value) == complaint


@given(st.binary(max_size=3000), st.integers(200, 3000), st.integers(0, 5))
def test_an_answer_never_holds_more_than_its_bound(data: bytes, max_bytes: int, context: int) -> None:
    found = grep(reader_of(data + b"a"), "[a-m]", max_bytes=max_bytes, context=context)
    assert found.matches
    assert shown_bytes(found) <= max_bytes


# ── Lines that match nothing at all ─────────────────────────────────────────────────────────────────────────


def test_a_pattern_that_can_match_nothing_is_answered_by_lines() -> None:
    reader = reader_of(b"one\n\ntwo\r\n\r\n  \nlast")
    blank = grep(reader, r"^\s*$")
    assert [(match.line, match.byte, match.end, match.text) for match in blank.matches] == [
        (2, 4, 4, ""),
        (4, 10, 11, ""),
        (5, 12, 14, "  "),
    ]
    assert (blank.total, blank.unit) == (3, "lines")
    assert blank.notes[1:] == snapshot(())
    assert grep(reader, "x*", count=True).total == 6
    assert [match.line for match in grep(reader, "$", limit=2, start=9).matches] == [4, 5]


def test_a_long_line_found_as_a_line_is_shown_by_its_beginning() -> None:
    (match,) = grep(reader_of(b"ab" * 50_000), "z?").matches
    assert (match.byte, match.end, match.match) == (0, 100_000, "")
    assert match.text == "ab" * 160
    assert (match.cut_left, match.cut_right) == (False, True)


# ── Groups ──────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:group")
def test_captured_values_are_counted_the_most_frequent_first() -> None:
    found = grep(reader_of(LOG), r"Failed password for (\S+)", group=True)
    assert found.groups == (Group("root", 2), Group("admin", 1))
    assert (found.total, found.distinct, found.matches) == (3, 2, ())


@requirement("grep:group-whole-match")
def test_without_a_capture_each_matched_text_is_counted() -> None:
    found = grep(reader_of(LOG), r"10\.0\.0\.\d", group=True)
    assert found.groups == (Group("10.0.0.1", 2), Group("10.0.0.2", 1), Group("10.0.0.3", 1))


def test_several_captures_are_counted_together_and_one_that_took_no_part_is_empty() -> None:
    found = grep(reader_of(b"a=1 b a=1 b=2\n"), r"(\w)(?:=(\d))?", group=True)
    assert found.groups == (Group("a\t1", 2), Group("b\t", 1), Group("b\t2", 1))


def test_values_that_occur_equally_often_come_in_the_order_of_the_text() -> None:
    found = grep(reader_of(b"z y x y w\n"), r"\w", group=True)
    assert [group.value for group in found.groups] == ["y", "z", "x", "w"]


def test_groups_of_a_pattern_that_can_match_nothing_are_those_of_the_first_match_of_each_line() -> None:
    found = grep(reader_of(b"a,1\n,2\na,3\n\n\xff,4"), "^([^,]*)", group=True)
    assert found.groups == (Group("", 3), Group("a", 2))
    assert (found.total, found.unit) == (5, "lines")
    whole = grep(reader_of(b"aab\nb\n"), "a*", group=True)
    assert whole.groups == (Group("aa", 1), Group("", 1))


@pytest.mark.parametrize(
    ("pattern", "total", "values"),
    [
        ("status=(.*)", 3, {"200": 2, "500": 1}),
        ("status=([^ ]*)", 3, {"200": 2, "500": 1}),
        (r"\s$", 0, {}),
        (r"[^0]$", 0, {}),
        (r"\W$", 0, {}),
        (r"\D$", 0, {}),
        (r"^.$", 0, {}),
        (r"0\s*$", 3, {"0": 3}),
        (r"\r", 3, {"\r": 3}),
    ],
)
def test_where_lines_end_in_two_signs_neither_is_part_of_the_line(
    pattern: str, total: int, values: dict[str, int]
) -> None:
    data = b"status=200\r\nstatus=500\r\n\r\nlast status=200"
    assert grep(reader_of(data), pattern).total == total
    assert {one.value: one.count for one in grep(reader_of(data), pattern, group=True).groups} == values


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_a_progress_bar_draws_anew_is_one_however_lines_end(end: str) -> None:
    data = f"get 10%\rget 50%\rget 100% done{end}other line{end}".encode() * 20
    for pattern in (r"10%.*done", r"10%[^\n]*done", r"10%\s+get", r"10%\Wget"):
        assert grep(reader_of(data), pattern).total == 20, pattern


def test_a_match_of_the_return_that_ends_a_line_shows_that_line_once() -> None:
    found = grep(reader_of(b"hit\r\nhit\r\nother\n"), r"hit|\r")
    assert (found.total, [(match.line, match.text) for match in found.matches]) == (4, [(1, "hit"), (2, "hit")])


def test_a_return_that_draws_a_line_anew_is_part_of_it() -> None:
    assert grep(reader_of(b"10%\r20%\r100% done\nnext\n"), "10%.*done").total == 1


def test_the_return_of_a_line_end_is_in_no_value_and_in_no_match() -> None:
    reader = reader_of(b"one\r\ntwo one\r\none")
    assert grep(reader, r"(\w+)$", group=True).groups == (Group("one", 3),)
    assert [(match.match, match.end - match.byte) for match in grep(reader, "one$").matches] == [("one", 3)] * 3


def test_where_a_return_is_inside_of_lines_too_the_answer_says_what_classes_take() -> None:
    done = b"".join(b"job %d done.\r\n" % number for number in range(9000))
    bar = b"fetch 10%\rfetch 100%.\r\n"
    for data in (bar + done, done + bar, done + b"\r"):
        found = grep(reader_of(data), r"[^.]$")
        assert "take the \\r of line ends too" in found.notes[-1]
        assert grep(reader_of(data), r"[^.\r]$").total == 0
        assert grep(reader_of(data), "done").notes == found.notes[:-1], "it has no class"
    found = grep(reader_of(done), r"[^.]$")
    assert (found.total, found.notes) == (0, ())


def test_nor_is_it_where_only_some_lines_end_so() -> None:
    for data in (b"k=1\r\n" * 30 + b"k=1\n" * 300, b"k=1\nk=1\r\n" * 165):
        assert grep(reader_of(data), "=([^,]+)", group=True).groups == (Group("1", 330),)


def test_only_as_many_groups_as_asked_for_are_shown_and_the_rest_is_told() -> None:
    reader = reader_of(b"".join(b"k%d\n" % (number % 300) for number in range(1000)))
    found = grep(reader, r"k\d+", group=True, limit=10)
    assert [group.count for group in found.groups] == [4] * 10
    assert (found.distinct, len(found.groups), found.notes[1:]) == (300, 10, ())
    small = grep(reader, r"k\d+", group=True, max_bytes=200)
    assert shown_bytes(small) <= 200
    assert (small.distinct, 0 < len(small.groups) < 100) == (300, True)
    rest = grep(reader, r"k\d+", group=True, limit=10, start=found.next or 0)
    assert ([group.value for group in rest.groups], rest.next) == ([f"k{number}" for number in range(10, 20)], 20)
    last = grep(reader, r"k\d+", group=True, start=295)
    assert ([group.value for group in last.groups], last.next) == ([f"k{number}" for number in range(295, 300)], None)
    only = grep(reader, r"k\d+", group=True, count=True)
    assert (only.groups, only.total, only.distinct) == ((), 1000, 300)


def test_long_values_stay_distinct_and_are_shown_by_their_beginning() -> None:
    first, second = "é" * 40_000 + "1", "é" * 40_000 + "2"
    reader = reader_of(f"<{first}>\n<{second}>\n<{first}>\n".encode() * 2)
    found = grep(reader, "<([^>]+)>", group=True)
    assert found.groups == (Group("é" * (LONG_VALUE // 2), 4), Group("é" * (LONG_VALUE // 2), 2))
    assert found.notes[1:] == snapshot(())


def test_past_the_most_values_that_are_held_the_answer_says_what_is_not_exact() -> None:
    data = b"".join(b"%d\n" % number for number in range(MAX_VALUES + 50)) + b"7\n" * 3 + b"%d\n" % (MAX_VALUES + 1)
    found = grep(reader_of(data), r"\d+", group=True, limit=1)
    assert (found.groups, found.distinct, found.total) == ((Group("7", 4),), MAX_VALUES, MAX_VALUES + 54)
    assert found.notes[-1] == snapshot(
        "there are more than 100,000 different values: the first of them are counted exactly, later ones only in the total"
    )


# ── Bytes of any kind ───────────────────────────────────────────────────────────────────────────────────────


@requirement("grep:binary")
def test_nul_bytes_and_broken_utf8_neither_end_nor_hide_a_search() -> None:
    data = b"\xff\xfe\x00\x00needle\x00 \xc3\n" + b"\x00" * 70_000 + b"\nneedle \xed\xa0\x80\xf0\x9f"
    found = grep(reader_of(data), "needle")
    assert [match.line for match in found.matches] == [1, 3]
    assert found.matches[0].text == "\ufffd\ufffd\x00\x00needle\x00 \ufffd"
    assert grep(reader_of(data), r"\x00{1000}").total == 70
    assert grep(reader_of(b"\xff\xfea\x00b\x00"), "a").total == 1  # no byte order mark turns it into other text


def test_a_character_class_matches_characters_and_never_a_broken_byte() -> None:
    data = b"a\xffb\xc3c\xed\xa0\x80d"
    assert [data[at : at + 1] for at in places(grep(reader_of(data), "."))] == [b"a", b"b", b"c", b"d"]


# ── Damage, and outputs that grow ───────────────────────────────────────────────────────────────────────────


def filled(lines: int) -> bytes:
    return b"".join(b"%08d some words in a line\n" % number for number in range(lines))


@requirement("store:blocks-checked", "store:damaged-never-shown")
def test_a_damaged_block_is_not_shown() -> None:
    data = filled(20_000)
    reader = reader_of(data)
    os.pwrite(reader.fileno(), b"#", data.index(b"00010000") + 10)
    with pytest.raises(OutputDamaged, match="checksum mismatch"):
        grep(reader, "^00010000")


@requirement("store:grep-says-unchecked")
def test_damage_elsewhere_does_not_stop_an_answer_that_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(filled(20_000))
    assert grep(reader, "^00010000").notes == ()
    os.pwrite(reader.fileno(), b"#", 10)
    damage = "damaged, so what they held may be missing here: bytes 0 to 65,536"
    found = grep(reader, "^00010000")
    assert [match.line for match in found.matches] == [10_001]
    assert found.notes == grep(reader, "zzz").notes == grep(reader, "some", count=True).notes == (damage,)
    monkeypatch.setattr("holdall.store.reader.MOST_CHECKED", 1000)
    assert grep(reader, "^00010000").notes == ("searched without checking checksums",)


def test_a_file_that_was_cut_off_is_no_smaller_output() -> None:
    reader = reader_of(LOG)
    os.ftruncate(reader.fileno(), 100)
    with pytest.raises(OutputDamaged, match="ends at byte 100 of 248"):
        grep(reader, "zzz")


@requirement("async:running-grep")
def test_what_was_written_after_the_output_was_opened_is_not_there_yet() -> None:
    data = filled(10_000) + b"half of a hit"
    reader = reader_of(data)
    os.pwrite(reader.fileno(), b" and more\nhit hit\n", len(data))
    found = grep(reader, "hit$")
    assert [match.byte for match in found.matches] == [len(data) - 3]
    assert grep(reader, "hit|00$", count=True).total == 1
    assert grep(reader, "and more").total == 0


def test_no_match_in_a_text_with_other_bytes_says_that_no_pattern_matches_those() -> None:
    note = "no pattern matches bytes that are not UTF-8, shown as \ufffd: search for what is beside them"
    data = "INFO Gerät 3 läuft\n".encode("latin-1") + b"INFO all of it is as it should be\n" * 50
    for pattern in ("Gerät", "Ger.t", "Ger\ufffdt"):
        found = grep(reader_of(data), pattern)
        assert (found.total, note in found.notes) == (0, True)
    assert note not in grep(reader_of(data), "INFO Ger").notes
    assert note not in grep(reader_of(b"plain\n" * 9), "Ger").notes


def test_no_match_in_json_that_is_all_ascii_says_how_other_characters_are_written() -> None:
    note = "this JSON is all ASCII and writes other characters as escapes, such as {}: search for the escape as literal text, or ask by SQL"
    rows = [{"id": n, "name": name} for n, name in enumerate(["Çelik", "李雷", "Ann"] * 20)]
    for data in (json.dumps(rows), "".join(json.dumps(row) + "\n" for row in rows)):
        reader = reader_of(data.encode())
        assert grep(reader, "Çelik").notes == (note.format("\\u00c7"),)
        assert grep(reader, "name.*李").notes == (note.format("\\u674e"),)
        assert grep(reader, "\\u00c7elik", literal=True).total == 20
        assert not grep(reader, "Berta").notes
        assert not grep(reader, "Ann|Çelik").notes
    assert not grep(reader_of(json.dumps(rows, ensure_ascii=False).encode()), "Müller").notes
    assert not grep(reader_of(b"plain text\n" * 9), "Müller").notes


# ── Against what a reader of the text would say ─────────────────────────────────────────────────────────────


@requirement("grep:line-numbers", "grep:context")
@given(st.lists(st.sampled_from(["", "é", "hit", "漢 hit", "x" * 397 + "hit", "y" * 400]), max_size=20), st.data())
def test_lines_their_numbers_and_what_is_around_them_are_those_of_the_text(
    lines: list[str], data: st.DataObject
) -> None:
    before, after = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    reader = reader_of("\n".join(lines).encode())
    found = grep(reader, "hit", before=before, after=after, max_bytes=None)
    hits = [at for at, line in enumerate(lines) if "hit" in line]
    assert [match.line - 1 for match in found.matches] == hits
    assert found.notes == ()
    shown = 0  # lines
    for match, at, following in zip(found.matches, hits, [*hits[1:], len(lines)], strict=False):
        assert match.text == lines[at]
        assert match.char == len("\n".join(lines[:at])) + (at > 0) + lines[at].index("hit")
        assert match.before == tuple(lines[max(shown, at - before) : at])
        last = len(lines) - (1 if lines and lines[-1] == "" else 0)  # behind the last newline is no line
        assert match.after == tuple(lines[at + 1 : min(at + 1 + after, following, last)])
        shown = at + 1 + len(match.after)


@requirement("grep:last")
@settings(max_examples=settings().max_examples // 4)
@given(
    st.lists(st.sampled_from(["", "hit", "hit hit", "z" * 300 + "hit", ("hit" + "z" * 170) * 5]), max_size=30),
    st.integers(1, 9),
    st.sampled_from([200, 1000, None]),
)
def test_pages_from_the_end_show_every_line_once_and_in_their_order(
    lines: list[str], limit: int, room: int | None
) -> None:
    reader = reader_of("\n".join(lines).encode())
    forward = pages(reader, "hit", limit=limit, max_bytes=room)
    backward = pages(reader, "hit", limit=limit, max_bytes=room, last=True)
    for answers in (forward, backward):
        assert all(len(page.matches) <= limit for page in answers)
        assert all(room is None or len(page.matches) == 1 or shown_bytes(page) <= room for page in answers)
        assert {page.total for page in answers} == {"\n".join(lines).count("hit")}
    assert [page.last for page in backward] == [True] * len(backward)
    seen = [line for page in reversed(backward) for line in sorted({match.line for match in page.matches})]
    assert sorted(set(seen)) == [at for at, line in enumerate(lines, 1) if "hit" in line]
    assert seen == sorted(seen)


@pytest.mark.parametrize("context", [0, 2])
@pytest.mark.parametrize("last", [False, True])
def test_matches_that_are_passed_on_in_parts_are_those_of_one_answer(context: int, last: bool) -> None:
    lines = [f"{number} hit hit" if number % 3 else f"{number} \ufffd" for number in range(500)]
    data = "\n".join(lines).encode().replace(b"100 hit", b"100 \xff hit")
    parts: list[Found] = []
    done = grep(reader_of(data), "hit", context=context, last=last, each=parts.append, limit=3)
    whole = grep(reader_of(data), "hit", context=context, whole=True, max_bytes=None)
    assert (done.matches, done.total, done.next) == ((), 666, None)
    assert [match for part in parts for match in part.matches] == list(whole.matches)
    assert (done.notes, len(whole.matches)) == (whole.notes, 333)
    assert "bytes that are not text are shown as \ufffd" in done.notes
    assert max(len(part.matches) for part in parts) <= 65
    assert {part.total for part in parts} == {0}


def test_without_a_limit_a_hundred_lines_are_shown_and_with_whole_all_of_them() -> None:
    reader = reader_of(b"hit\n" * 150)
    assert [len(found.matches) for found in (grep(reader, "hit"), grep(reader, "hit", whole=True))] == [100, 150]
    assert len(grep(reader, "hit", whole=True, limit=120).matches) == 120


def test_a_search_within_a_session_has_its_bounds() -> None:
    reader = reader_of(b"".join(b"hit %046d\n" % number for number in range(200)))
    assert shown_bytes(grep_bounded(reader, bounds=Bounds(1000), pattern="hit")) == 1000
    many = grep_bounded(reader, bounds=Bounds(4000, 500, counted_later=True), pattern="hit")
    assert shown_bytes(many) == 4000  # only one has to fit by the estimate
    assert 1000 < shown_bytes(grep_bounded(reader, bounds=Bounds(4000, 500), pattern="hit")) < 2000
    assert len(grep_bounded(reader, bounds=replace(UNBOUNDED, whole=True), pattern="hit").matches) == 200
    parts: list[Any] = []
    grep_bounded(reader, bounds=replace(UNBOUNDED, each=parts.append), pattern="hit", limit=1)
    assert sum(len(part.matches) for part in parts) == 200
    seconds: set[float] = set()
    own = Bounds(None, settings=Settings(grep_seconds=7.0), each=lambda _: seconds.add(deadline.of_seconds().seconds))
    grep_bounded(reader, bounds=own, pattern="hit")
    assert seconds == {7.0}


@requirement("grep:last")
def test_of_lines_with_very_many_matches_the_last_are_shown_and_every_line_is_reached() -> None:
    reader = reader_of(b"".join(b"%d %s\n" % (number, b"hit" * 100) for number in range(10)))
    found = grep(reader, "hit", last=True, limit=3)
    assert [match.line for match in found.matches] == [9, 10]  # of the one before some matches were not looked at
    assert [len(match.others) for match in found.matches] == [99, 99]
    seen = [match.line for page in pages(reader, "hit", last=True, limit=3) for match in page.matches]
    assert sorted(seen) == list(range(1, 11))
    assert [match.line for match in grep(reader, "hit", last=True, whole=True, start=700).matches] == [1, 2, 3]
    assert [match.text for match in grep(reader_of(b"\nabc\n\n"), "^$").matches] == ["", ""]
    assert grep(reader_of(b"HIT\n"), "hit").total == 0, "case counts"


def test_where_matches_begin_is_told_by_parts_of_the_output() -> None:
    reader = reader_of(b"hit\n" + b"a line\n" * 100 + b"hit\n" + b"a line\n" * 99)
    assert grep(reader, "hit", spread=4).spread == (0, 2)
    assert grep(reader, "hit", spread=4, limit=1).spread == (0, 2)
    assert grep(reader, "hit", spread=4, last=True).spread == grep(reader, "hit").spread == ()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("gzip", "these are the bytes of a gzip, not the text that it holds: search HANDLE!, or HANDLE!NAME of a tar in it"),
        ("pdf", "these are the bytes of a pdf, not the text that it holds: search HANDLE!"),
        ("zip", "these are the bytes of a zip, not its files: search HANDLE!NAME; HANDLE! is the list of them"),
        ("utf-16", "these are the bytes of UTF-16, in which a pattern finds no letters: search HANDLE!, the text as UTF-8"),
        ("tar", None),
        ("text", None),
    ],
)  # fmt: skip
def test_what_is_packed_says_where_its_text_is(kind: str, told: str | None) -> None:
    reader = reader_of(b"some bytes\n")
    reader.facts = replace(reader.facts, measure=replace(reader.facts.measure, kind=kind))
    assert grep(reader, "bytes").notes == ((told,) if told else ())


def test_of_many_damaged_places_three_are_named() -> None:
    data = filled(20_000)
    for number, more in ((3, ""), (4, " and 1 more places")):
        reader = reader_of(data)
        for block in range(number):
            os.pwrite(reader.fileno(), b"#", 2 * block * BLOCK + 10)
        found = grep(reader, "^00019999")
        assert found.notes == (
            "damaged, so what they held may be missing here: bytes 0 to 65,536, 131,072 to 196,608, 262,144 to 327,680"
            + more,
        )
        assert found.damage == tuple(Span(2 * block * BLOCK, (2 * block + 1) * BLOCK) for block in range(number))


def test_an_output_that_is_still_written_or_did_not_end_well_says_so() -> None:
    reader = reader_of(b"hit\n")
    reader.facts = replace(reader.facts, state="running")
    assert grep(reader, "hit").notes == ("still running: searched what is there so far",)
    reader.facts = replace(reader.facts, state="failed", error="it broke")
    (told,) = grep(reader, "hit").notes
    assert "it broke" in told


def test_groups_fit_into_their_room_and_go_on_by_number() -> None:
    reader = reader_of(b"".join(b"v%02d%s\n" % (number, b"x" * 97) for number in range(20)))
    found = grep(reader, "v.*", group=True, max_bytes=500)
    assert (len(found.groups), found.next, found.skipped, found.distinct) == (5, 5, 0, 20)
    rest = grep(reader, "v.*", group=True, max_bytes=500, start=18)
    assert ([group.value[:3] for group in rest.groups], rest.next, rest.skipped) == (["v18", "v19"], None, 18)
    assert (
        len(grep(reader, "v.*", group=True, max_bytes=200, total_bytes=500).groups) == 7
    )  # each cut to a third of 200
    cut_off = grep(reader, "v.*", group=True, max_bytes=299)
    assert cut_off.notes == ("long values are shown by their first 99 bytes",)
    assert {len(group.value) for group in cut_off.groups} == {99}
    assert grep(reader, "v.*", group=True, max_bytes=300).notes == ()
    assert grep(reader, "v.*", group=True, start=20).next is None
    only = grep(reader, "v.*", group=True, count=True)
    assert (only.groups, only.distinct, only.total) == ((), 20, 20)


def test_a_small_room_shows_less_of_each_match() -> None:
    reader = reader_of(b"x" * 5000 + b"HIT" + b"y" * 5000 + b"\n" + b"z" * 100 + b" HIT\n")
    usual, small = grep(reader, "HIT", max_bytes=4 * 1120), grep(reader, "HIT", max_bytes=4 * 1120 - 1)
    assert [len(match.text) for match in usual.matches] == [2 * 160 + 3, 104]
    assert [len(match.text) for match in small.matches] == [2 * (4479 // 32) + 3, 104]
    tiny = grep(reader, "HIT", max_bytes=200)
    assert [(len(match.text), match.cut_left, match.cut_right) for match in tiny.matches] == [
        (15, True, True),
        (9, True, False),
    ]
