"""Outlines of anything: they never raise, never grow, and never read more than a bounded part."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall.formats import Outline, Room, outline
from holdall.formats.registry import KINDS
from holdall.values.outputs import Kind, Measure
from tests.requirements import requirement
from tests.support import in_effort
from tests.text.outline_tools import measured, outlined
from tests.text.strategies import messy_bytes

_KINDS = st.sampled_from(KINDS)
_MIB = 1024 * 1024
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=6), inner, max_size=20),
    max_leaves=60,
)
_LINES = st.lists(
    st.text(max_size=40)
    | st.sampled_from(
        [
            "2024-01-01 00:00:01 INFO up", "ERROR: no", "Traceback (most recent call last):", "\tat a.b(C.java:1)",
            "diff --git a/x b/x", "+++ b/x", "--- FAIL: TestX", "# Head", "<a b='c'>", "1,2,3", '{"a": 1}',
            "= test session starts =", "= short test summary info =", "=== 1 failed in 1s ===", "x.c:1:2: error: y",
        ]
    ),
    max_size=60,
)  # fmt: skip


def _is_sound(found: Outline, size: int, budget: int) -> None:
    assert found.label
    assert found.lines
    assert not any("\n" in line or "\r" in line for line in found.lines)
    assert "".join(found.lines).encode("utf-8")
    assert sum(map(len, found.lines)) <= budget + 400
    assert len(found.errors) <= 5
    assert all(0 <= at <= size and len(text.encode("utf-8", "replace")) <= 210 for at, text in found.errors)
    assert all(0 <= start <= end <= size for start, end, _ in found.ranges)


@given(messy_bytes, _KINDS)
def test_any_bytes_of_any_kind_have_an_outline(data: bytes, kind: Kind) -> None:
    measure = Measure(bytes=len(data), lines=data.count(b"\n") + 1, kind=kind)
    _is_sound(outline(lambda start, end: data[start:end], measure), len(data), 1400)


@given(_LINES, _KINDS, st.integers(min_value=100, max_value=2000))
def test_any_lines_have_an_outline_near_their_budget(lines: list[str], kind: Kind, budget: int) -> None:
    data = "\n".join(lines).encode("utf-8", "replace")
    measure = Measure(bytes=len(data), lines=len(lines), kind=kind)
    _is_sound(outline(lambda start, end: data[start:end], measure, room=Room(budget)), len(data), budget)


@given(_JSON, st.integers(min_value=0, max_value=400))
def test_any_json_has_an_outline_whole_or_cut(value: Any, cut: int) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False)):
        for data in (text.encode("utf-8", "replace"), text.encode("utf-8", "replace")[:cut]):
            measure = Measure(bytes=len(data), lines=data.count(b"\n") + 1, kind="json")
            _is_sound(outline(lambda start, end, data=data: data[start:end], measure), len(data), 1400)


# Made where they are needed: every process that collects the tests would make and hold them all.
LARGE: dict[str, Callable[[], bytes]] = {
    "one line": lambda: b"x" * 10_000_000,
    "brackets": lambda: b"[" * 1_000_000,
    "both brackets": lambda: b"[]{}" * 250_000,
    "levels": lambda: b'[{"a":' * 100_000 + b"1" + b"}]" * 100_000,
    "newlines": lambda: b"\n" * 5_000_000,
    "short lines": lambda: b"a\n" * 2_500_000,
    "tags": lambda: b"<a " * 1_400_000,
    "headings": lambda: b"# a\n" * 1_000_000,
    "rules": lambda: b"# a\n\n" + b"-" * 5_000_000,
    "fences": lambda: b"# a\n" + b"```\n~~~~\n" * 500_000,
    "comments": lambda: b"<html>" + b"<!-- " * 1_000_000,
    "scripts": lambda: b"<html>" + b"<script>" * 600_000,
    "sections of xml": lambda: b"<?xml version='1.0'?><a>" + b"<![CDATA[" * 500_000,
    "commits": lambda: b"commit 0123456789\nAuthor: a\n" * 150_000,
    "requests": lambda: b'1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] "GET \\\\" 2\n' * 70_000,
    "quotes of requests": lambda: b'1.2.3.4 - - [10/Oct/2026:13:55:36 +0000] "GET ' + b"\\" * 4_000_000,
    "stamps": lambda: b"2026-01-01 00:00:00 " * 250_000,
    "programs": lambda: (b"Mar  1 00:00:00 h " + b"a" * 70 + b" (b c) 1.2\n") * 45_000,
    "spaces of programs": lambda: (b"Mar  1 00:00:00 h a" + b" -" * 50 + b"[\n") * 35_000,
    "hunks": lambda: b"--- a\n+++ b\n@@ -1,9999999 +1,9999999 @@\n" + b"--- x\n+++ y\n" * 300_000,
    "frames": lambda: b"foo\n    at " * 400_000,
    "traces": lambda: b"Traceback (most recent call last):\n" * 100_000,
    "errors": lambda: b"x: error: " * 400_000,
    "failures": lambda: b"= test session starts =\n" + b"".join(b"FAILED a.py::test_%d\n" % n for n in range(100_000)),
    "compiler": lambda: b"".join(b"a%d.c:1:2: error: no\n" % n for n in range(100_000)),
    "quotes": lambda: b'"' * 5_000_000,
    "binary": lambda: bytes(range(256)) * 40_000,
    "records": lambda: b"[" + b'{"sku": "A-1", "note": "n", "tags": ["a", "b"]}, ' * 200_000 + b"{}]",
    "rows": lambda: b"a,b,c\n" + b"1,x,2.5\n" * 1_200_000,
    "ndjson": lambda: b'{"a": 1, "b": [1, 2]}\n' * 450_000,
    "log": lambda: b"".join(
        b"2024-01-01 00:00:%02d INFO job %d done in %d ms\n" % (n % 60, n, n % 997) for n in range(200_000)
    ),
}


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("name", LARGE)
def test_what_is_read_and_how_long_it_takes_does_not_grow_with_the_output(name: str) -> None:
    data = LARGE[name]()
    taken = 0

    def read(start: int, end: int) -> bytes:
        nonlocal taken
        taken += end - start
        return data[start:end]

    def outlined_anew() -> Outline:
        nonlocal taken
        taken = 0
        return outline(read, measure)

    measure = measured(data)
    found = in_effort(100, outlined_anew)  # a tenth of it is usual; what is quadratic is thousands
    _is_sound(found, len(data), 1400)
    # What is small is read once, and what is not too large may be searched once more.
    assert taken <= (1 if len(data) <= 8 * _MIB else 2) * len(data) + 0.1 * _MIB


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "line", [b"2026-01-01 00:00:00 INFO a row of many\n", b'{"a": 1, "b": "words"},', b"a,b,c\n", b"<p>words</p>"]
)
def test_of_a_huge_output_little_is_read(line: bytes, kind: Kind) -> None:
    """A thousand megabytes that are nowhere: whatever is read of them is made up."""
    size, taken = 1000 * _MIB, 0

    def read(start: int, end: int) -> bytes:
        nonlocal taken
        taken += end - start
        at = start % len(line)
        return (line * ((end - start) // len(line) + 2))[at : at + end - start]

    found = outline(read, Measure(bytes=size, lines=size // len(line), kind=kind))
    assert taken < 4 * _MIB
    assert found.lines


@settings(max_examples=20)
@given(st.integers(min_value=1, max_value=50))
def test_counts_of_what_was_read_whole_are_exact(number: int) -> None:
    found = outlined("".join(f"alpha {n} beta\n" for n in range(number)) + "gamma delta\n" * 60)
    assert not found.sampled
    assert not any("~" in line for line in found.lines)
    assert any(line.strip().startswith("60 × gamma") for line in found.lines)


@requirement("notice:sample-marked")
def test_shares_of_a_sample_are_marked_and_the_sample_is_named() -> None:
    found = outlined(LARGE["log"]())
    assert found.sampled
    summary, share = found.lines
    assert re.fullmatch(r"at least 2024-01-01 00:00:00 → 00:00:59 · of [\d,]+ sampled lines: INFO ~100 %", summary)
    assert share == "~100 % × INFO job <n> done in <n> ms"


def test_the_members_after_a_large_array_are_found_at_the_end() -> None:
    records = b", ".join(b'{"sku": "A-%d", "qty": %d}' % (n, n % 9) for n in range(200_000))
    found = outlined(b'{"meta": {"v": 1}, "items": [' + records + b'], "total": 200000}')
    assert found.sampled  # of the values; the elements are all counted
    assert found.lines[0] == (
        '{meta: {v: 1}, items: [200,000 × {sku: str "A-0", qty: int at least 0…8}], total: 200000}'
    )


def test_a_rare_error_is_found_among_many_different_lines() -> None:
    words = ["ab", "cd", "ef", "gh", "ij", "kl", "mn", "op", "qr", "st"]
    lines = [
        f"{words[n % 10]} {words[n // 10 % 10]} {words[n // 100 % 10]} {words[n // 1000 % 10]}" for n in range(9000)
    ]
    lines[7123] = "the disk reported an Error here"
    data = "\n".join(lines)
    assert outlined(data).errors == ((data.index("the disk"), "the disk reported an Error here"),)


def test_a_sample_is_not_named_where_nothing_is_told_of_it() -> None:
    """An access log whose summary leaves no room for its shapes."""
    codes = (200, 404, 304, 405, 201, 416, 500, 301)
    lines = [
        f'10.0.0.{n % 250} - - [16/Nov/2026:13:{n // 60 % 60:02}:{n % 60:02} +0000] "GET /{"x" * (n % 40)}/{n * 7919:x} HTTP/1.1" '
        f'{codes[n % 8]} {n} "-" "agent {n * n:x} of {n:b}"\n'
        for n in range(9_000)
    ]
    told = outlined("".join(lines), budget=200).lines
    assert not told[-1].endswith("sampled lines:")
