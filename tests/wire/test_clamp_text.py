"""The clamp of one text: every case of S4, and what holds for any text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.wire.clamp import MAX_BYTES, MAX_LINES, SUFFIX, Clamped, clamp_text, suffix_for
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement
from tests.wire.texts import FAMILY, borders, broken_texts, lines, size, texts

ROOM = MAX_BYTES - len(SUFFIX)


@requirement("dialect:clamp-suffix")
def test_the_suffix_is_that_of_s4_to_the_letter() -> None:
    limits = DIALECTS["clamp"].limits
    assert suffix_for(limits.bytes, limits.lines) == SUFFIX
    assert (
        SUFFIX
        == "\n\n[tool output truncated: exceeded 50KB or 2000 lines; request smaller chunks (offset/limit) or specific sections]"
    )
    assert clamp_text("x" * 60_000).text == "x" * ROOM + SUFFIX


@pytest.mark.parametrize(
    ("max_bytes", "max_lines", "says"),
    [
        (12 * 1024, 500, "exceeded 12KB or 500 lines;"),
        (51_000, 1, "exceeded 51000 bytes or 1 line;"),
        (1, None, "exceeded 1 byte;"),
        (None, 2000, "exceeded 2000 lines;"),
        (2 * 1024 * 1024, None, "exceeded 2048KB;"),
    ],
)
def test_the_numbers_in_the_suffix_are_the_limits(max_bytes: int | None, max_lines: int | None, says: str) -> None:
    suffix = suffix_for(max_bytes, max_lines)
    assert suffix == SUFFIX.replace("exceeded 50KB or 2000 lines;", says)
    text = "x\n" * 3000 if max_bytes is None else "x" * (max_bytes + 1)
    shown = clamp_text(text, max_bytes=max_bytes, max_lines=max_lines).text
    assert shown.endswith(suffix) or (max_bytes or 0) < len(suffix)


def test_the_suffix_can_say_where_the_rest_is() -> None:
    assert suffix_for(MAX_BYTES, MAX_LINES, handle="k3f9") == SUFFIX + "\n[all of it is kept; handle: k3f9]"
    assert suffix_for(MAX_BYTES, MAX_LINES, gone="the disk is full") == (
        SUFFIX + "\n[the rest was not kept and is gone: the disk is full]"
    )


# ── The cases of S4 §4 E ────────────────────────────────────────────────────────────────────────────────────


@requirement("clamp:under-limits-same-object")
@pytest.mark.parametrize("text", ["", "x", "\n", "x" * MAX_BYTES, "é" * (MAX_BYTES // 2), "x\n" * MAX_LINES])
def test_what_is_under_the_limits_or_exactly_at_them_is_the_same_object(text: str) -> None:
    clamped = clamp_text(text)
    assert clamped.text is text
    assert clamped == Clamped(text, size(text), lines(text), size(text), lines(text), changed=False)


@requirement("clamp:suffix-inside-byte-cap")
@pytest.mark.parametrize("letter", ["x", "é", "漢", "😀"])
def test_over_the_byte_limit_the_suffix_is_inside_it(letter: str) -> None:
    text = letter * 60_000
    clamped = clamp_text(text)
    kept = ROOM // len(letter.encode())
    assert clamped.text == letter * kept + SUFFIX
    assert clamped == Clamped(clamped.text, kept * size(letter), 1, size(text), 1, changed=True)
    assert MAX_BYTES - size(letter) < size(clamped.text) <= MAX_BYTES


def test_one_byte_over_the_limit_is_over() -> None:
    assert clamp_text("x" * (MAX_BYTES + 1)).text == "x" * ROOM + SUFFIX


def test_over_the_line_limit_whole_lines_are_kept() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 2101))
    clamped = clamp_text(text)
    assert clamped.text == text[: text.index("line 2001\n")] + SUFFIX
    assert (clamped.kept_lines, clamped.total_lines, clamped.changed) == (2000, 2100, True)


@requirement("clamp:lines-before-bytes")
def test_with_both_limits_hit_lines_are_cut_first() -> None:
    # The byte cap applied first would leave 51,086 bytes with 3,000 lines to cut; then there would be room to spare.
    long_first = "x" * 30 + "\n"
    clamped = clamp_text(long_first * 2500)
    assert clamped.text == (long_first * 2000)[:ROOM] + SUFFIX
    short = clamp_text("\n" * 2500 + "x" * 60_000)
    assert short.text == "\n" * 2000 + SUFFIX
    # Lines alone would do, but then the suffix has no room: bytes are cut too.
    brim = "y" * (MAX_BYTES - 2000) + "\n" * 2000
    assert clamp_text(brim + "z").text == brim[:ROOM] + SUFFIX


@requirement("clamp:code-point-whole")
@pytest.mark.parametrize("shift", range(5))
def test_an_astral_character_at_the_cut_is_whole_or_gone(shift: int) -> None:
    text = "x" * (ROOM - shift) + "😀" * 40_000
    clamped = clamp_text(text)
    assert clamped.text == "x" * (ROOM - shift) + "😀" * (shift // 4) + SUFFIX
    assert clamped.text.encode().decode() == clamped.text


def test_halves_of_a_surrogate_pair_are_replaced_where_the_text_is_cut() -> None:
    for shift in range(7):
        text = "x" * (ROOM - shift) + "\ud83d\ude00" * 20_000
        assert clamp_text(text).text == "x" * (ROOM - shift) + "\ufffd" * (shift // 3) + SUFFIX


# ── Borders ─────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("clamp:crlf-whole")
def test_a_crlf_pair_at_the_cut_is_whole_or_gone() -> None:
    for shift in range(4):
        text = "x" * (ROOM - shift) + "\r\n" * 1500
        assert clamp_text(text).text == "x" * (ROOM - shift) + "\r\n" * (shift // 2) + SUFFIX
    assert clamp_text("a\r\n" * 2001).text == "a\r\n" * 2000 + SUFFIX


@requirement("clamp:grapheme-whole")
@pytest.mark.parametrize(
    "cluster",
    [
        FAMILY,
        "\U0001f1e9\U0001f1ea",
        "e\u0301\u0302",
        "\u1100\u1161\u11a8",
        "\u0915\u094d\u0937\u093f",
        "1\ufe0f\u20e3",
    ],
    ids=["family", "flag", "combining marks", "jamo", "indic conjunct", "keycap"],
)
def test_a_grapheme_at_the_cut_is_whole_or_gone(cluster: str) -> None:
    for shift in range(size(cluster) + 1):
        text = "x" * (ROOM - shift) + cluster * 20_000
        assert clamp_text(text).text == "x" * (ROOM - shift) + cluster * (shift // size(cluster)) + SUFFIX


@requirement("clamp:grapheme-whole")
def test_a_grapheme_that_alone_is_over_is_cut_between_characters() -> None:
    assert clamp_text("e" + "\u0301" * 60_000).text == "e" + "\u0301" * ((ROOM - 1) // 2) + SUFFIX
    assert clamp_text("ab" + "\u0301" * 60_000).text == "ab" + "\u0301" * ((ROOM - 2) // 2) + SUFFIX


def test_lines_end_at_newlines_only() -> None:
    text = "a\rb\x0bc\x0cd\x85e\u2028f\u2029" * 500
    assert clamp_text(text).text is text


@pytest.mark.parametrize(
    ("limit", "shown"),
    [
        (0, ""),
        (2, ""),
        (3, "…"),
        (4, "x…"),
        (5, "[cut]"),
        (10, "xxxxx[cut]"),
        (12, "\n[truncated]"),
        (20, "xxxxxxxx\n[truncated]"),
    ],
)
def test_a_limit_that_is_shorter_than_the_suffix_still_holds(limit: int, shown: str) -> None:
    assert clamp_text("x" * 100, max_bytes=limit).text == shown


# ── Real and quoted suffixes ────────────────────────────────────────────────────────────────────────────────


def test_a_tag_is_used_only_where_the_text_quotes_a_suffix() -> None:
    assert clamp_text("x" * 60_000, tag="9f2c").text.endswith("x" + SUFFIX)
    quoting = clamp_text(("log\n" + SUFFIX) * 1000, tag="9f2c")
    assert quoting.text[quoting.text.rindex("\n\n") :] == snapshot(
        "\n\n[holdall:9f2c] [tool output truncated: exceeded 50KB or 2000 lines; request smaller chunks (offset/limit) or specific sections]"
    )
    assert quoting.text.count("9f2c") == 1
    assert size(quoting.text) <= MAX_BYTES


def test_a_tag_that_the_text_knows_is_not_used() -> None:
    text = "\n\n[holdall:9f2c] [tool output truncated: all is well]\n[holdall:9f2c-2]" * 1000
    assert "\n\n[holdall:9f2c-3] [tool output truncated: exceeded" in clamp_text(text, tag="9f2c").text


def test_a_suffix_of_ones_own_is_tagged_after_its_newlines() -> None:
    clamped = clamp_text("[cut]" * 100, max_bytes=50, suffix="\n[cut]", tag="9")
    assert clamped.text == "[cut]" * 6 + "[c\n[holdall:9] [cut]"
    assert clamp_text("xyz", max_bytes=2, suffix="").text == "xy"


@pytest.mark.parametrize(
    "ending", [SUFFIX, suffix_for(MAX_BYTES, MAX_LINES, handle="k3f9"), "\n\n[holdall:t] " + SUFFIX[2:]]
)
def test_a_text_that_was_clamped_before_is_left_as_it_is(ending: str) -> None:
    text = "x\n" * 2000 + ending
    assert clamp_text(text).text is text


@pytest.mark.parametrize(
    "text",
    [
        "x\n" * 2001 + SUFFIX,
        "x\n" * 2000 + SUFFIX + "\n" * 5,
        "x\n" * 2000 + "x" + SUFFIX[2:],
        "x" * MAX_BYTES + SUFFIX,
        SUFFIX + "x\n" * 2000,
    ],
)
def test_a_suffix_in_the_text_does_not_stretch_the_limits(text: str) -> None:
    clamped = clamp_text(text)
    assert clamped.changed
    assert clamped.kept_lines <= MAX_LINES
    assert size(clamped.text) <= MAX_BYTES


# ── For any text ────────────────────────────────────────────────────────────────────────────────────────────

byte_limits = st.integers(min_value=0, max_value=300)
line_limits = st.integers(min_value=0, max_value=20)
tags = st.sampled_from(["", "t", "tag"])


@requirement("clamp:pure")
@given(broken_texts, byte_limits, line_limits, tags)
def test_a_clamped_text_is_a_beginning_and_a_suffix_within_both_budgets(
    text: str, max_bytes: int, max_lines: int, tag: str
) -> None:
    clamped = clamp_text(text, max_bytes=max_bytes, max_lines=max_lines, tag=tag)
    assert clamped == clamp_text(text, max_bytes=max_bytes, max_lines=max_lines, tag=tag)
    assert size(clamped.text) <= max_bytes
    assert (clamped.total_bytes, clamped.total_lines) == (size(text), lines(text))
    if not clamped.changed:
        assert clamped.text is text
        return
    assert size(text) > max_bytes or lines(text) > max_lines
    head = clamped.text.encode("utf-8", "surrogatepass")[: clamped.kept_bytes].decode("utf-8", "surrogatepass")
    assert re.sub("[\ud800-\udfff]", "\ufffd", text).startswith(head)
    assert lines(head) == clamped.kept_lines <= max_lines
    ending = clamped.text[len(head) :]
    assert ending in (suffix_for(max_bytes, max_lines), "\n[truncated]", "[cut]", "…", "") or "[holdall:t" in ending


@given(texts, st.integers(min_value=120, max_value=300), line_limits)
def test_no_cluster_is_ever_split(text: str, max_bytes: int, max_lines: int) -> None:
    clamped = clamp_text(text, max_bytes=max_bytes, max_lines=max_lines)
    head = len(clamped.text.encode()[: clamped.kept_bytes].decode())
    room = max_bytes - len(suffix_for(max_bytes, max_lines))
    places = sorted(borders(text))
    start = max(place for place in places if place <= head)
    following = next((place for place in places if place > start), start)
    assert head == start or size(text[start:following]) > room


@given(broken_texts, byte_limits, line_limits, tags)
def test_clamping_twice_is_clamping_once(text: str, max_bytes: int, max_lines: int, tag: str) -> None:
    once = clamp_text(text, max_bytes=max_bytes, max_lines=max_lines, tag=tag).text
    assert clamp_text(once, max_bytes=max_bytes, max_lines=max_lines, tag=tag).text is once


@requirement("clamp:under-limits-same-object")
@given(broken_texts)
def test_a_text_within_its_limits_is_the_same_object(text: str) -> None:
    assert clamp_text(text, max_bytes=size(text), max_lines=lines(text)).text is text
    assert clamp_text(text, max_bytes=None, max_lines=None).text is text


def test_half_a_character_is_replaced_in_what_is_cut() -> None:
    text = ("x" * 25 + "\ud83d\ude00\n") * 3000
    shown = clamp_text(text, max_bytes=1000).text
    shown.encode()
    assert len(shown.encode()) <= 1000
    assert "\ufffd" in shown
