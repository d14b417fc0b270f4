"""Searches that are meant to hurt: patterns that blow up elsewhere, absurd numbers, a hundred megabytes on one line."""

import threading

import pytest

from holdall.values.errors import BadPattern, BadRange
from holdall.verbs.grep import grep
from tests.requirements import requirement
from tests.support import reader_of
from tests.verbs.test_grep import spans


@requirement("grep:linear-time")
@pytest.mark.parametrize(
    ("pattern", "text", "total"),
    [
        pytest.param("(a|aa)+$", "a" * 60 + "!", 0, id="GREP-003"),
        pytest.param("(.*?,){25}P", ",".join(map(str, range(1, 29))), 0, id="GREP-004"),
        pytest.param("(x+x+)+y", "x" * 20_000, 0, id="nested quantifiers"),
        pytest.param("(?:a?){100}a{100}", "a" * 100, 1, id="optional parts"),
    ],
)
def test_a_pattern_that_is_exponential_elsewhere_is_answered_in_linear_time(
    pattern: str, text: str, total: int
) -> None:
    # The limit is far over what a linear search takes and far under what any backtracking one would.
    assert grep(reader_of(text.encode()), pattern, seconds=20).total == total


@requirement("grep:linear-time")
def test_a_search_runs_beside_other_work_and_holds_no_lock_of_python() -> None:
    """GREP-003, GREP-004: other sessions keep being served."""
    reader = reader_of(b"ab" * 500_000)

    def ticks() -> int:
        """How often another thread had its turn while it was searched."""
        seen, found = threading.Event(), 0
        worker = threading.Thread(target=lambda: (grep(reader, "(a|ab)+c", count=True), seen.set()))
        worker.start()
        while not seen.wait(0.0005):
            found += 1
        worker.join()
        return found

    assert any(ticks() for _ in range(20)), "on a busy machine one search may be over before anybody has a turn"


@requirement("grep:pattern-too-long")
def test_grep_007_a_megabyte_of_alternatives_is_refused_by_its_length() -> None:
    pattern = "|".join(f"w{number}" for number in range(150_000))
    with pytest.raises(BadPattern, match=r"the pattern has 1,088,889 characters; at most 10,000 are run"):
        grep(reader_of(b"w1"), pattern)


@requirement("grep:look-around-refused", "grep:back-reference-refused")
@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1"])
def test_grep_009_look_around_and_back_references_are_refused(pattern: str) -> None:
    with pytest.raises(BadPattern, match=r"not supported .*with group=True"):
        grep(reader_of(b"ab aa"), pattern)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("(?i)error", "Error ERROR", ["Error", "ERROR"]),
        ("a\x00b", "xa\x00by", ["a\x00b"]),
        ("😀+", "a😀😀b", ["😀😀"]),
    ],
)
def test_grep_011_flags_nul_and_characters_of_four_bytes_mean_what_they_say(
    pattern: str, text: str, matches: list[str]
) -> None:
    reader = reader_of(text.encode())
    found = grep(reader, pattern)
    assert [reader.read(span.start, span.end).decode() for span in spans(found)] == matches


@requirement("grep:across-lines")
def test_grep_011_a_pattern_with_a_newline_is_refused_and_says_that_lines_are_searched() -> None:
    with pytest.raises(BadPattern, match="matched within one line"):
        grep(reader_of(b"a\nb"), "a\nb")
    assert grep(reader_of(b"a\nb"), r"a\sb|a[^x]b").total == 0


@requirement("grep:window")
def test_grep_012_a_match_inside_a_line_of_a_hundred_megabytes_comes_as_a_window() -> None:
    reader = reader_of(b"x" * 50_000_000 + b"NEEDLE" + b"x" * 50_000_000)
    (match,) = grep(reader, "NEEDLE", context=3).matches
    assert (match.byte, match.end, match.char, match.line) == (50_000_000, 50_000_006, 50_000_000, 1)
    assert match.text == "x" * 160 + "NEEDLE" + "x" * 160
    assert (match.before, match.after) == ((), ())


@requirement("grep:limit")
def test_grep_013_a_million_matches_are_capped_counted_and_can_be_continued() -> None:
    reader = reader_of(b"hit\n" * 1_000_000)
    found = grep(reader, "hit")
    assert (len(found.matches), found.total, found.next) == (100, 1_000_000, 400)


@requirement("grep:limit")
def test_grep_013_the_last_of_a_million_matches_are_reached_from_where_they_start() -> None:
    last = grep(reader_of(b"hit\n" * 1_000_000), "hit", start=3_999_992)
    assert ([match.line for match in last.matches], last.total, last.next) == ([999_999, 1_000_000], 1_000_000, None)


@requirement("grep:bad-number")
@pytest.mark.parametrize("context", [-1, 10**9, "3", float("nan")])
def test_grep_015_an_absurd_context_is_refused_with_the_rule(context: object) -> None:
    reader = reader_of(b"a")
    with pytest.raises(BadRange, match="context must be"):
        grep(reader, "a", context=context)  # pyright: ignore[reportArgumentType]
    assert grep(reader, "a").total == 1


@requirement("grep:ignore-case")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [("İ", [("İ", 0)]), ("ß", [("ß", 3), ("ẞ", 6)]), ("\u212a", [("\u212a", 10), ("k", 14), ("K", 16)])],
)
def test_grep_017_case_is_folded_one_character_for_one_and_offsets_are_those_of_the_bytes(
    pattern: str, found: list[tuple[str, int]]
) -> None:
    reader = reader_of("İ ß ẞ \u212a k K ss i ı\n".encode())
    answer = grep(reader, pattern, ignore_case=True)
    assert [(reader.read(span.start, span.end).decode(), span.start) for span in spans(answer)] == found
