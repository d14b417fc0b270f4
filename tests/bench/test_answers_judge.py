"""What counts as seen, by bytes, by what a tool computed and by the notice; and what the usual ways to cut leave."""

from dataclasses import replace

import pytest

from bench.answers import clamps, judge
from bench.answers.reading import Reply
from bench.answers.tasks import Task
from holdall.values.spans import Span

_DATA = b'a 1\nb 2\n{"k": 3}\n'
_TASK = Task("t", "o", "needle", "what of b?", ("2",), (Span(4, 7),), "all", last=7)


@pytest.mark.parametrize(
    ("task", "spans", "how"),
    [
        (_TASK, [Span(0, 8)], "bytes"),
        (_TASK, [Span(4, 6), Span(6, 7)], "bytes"),
        (_TASK, [Span(5, 8)], ""),
        (replace(_TASK, where=(Span(0, 3), Span(4, 7))), [Span(4, 7)], ""),
        (replace(_TASK, where=(Span(0, 3), Span(4, 7)), require="any"), [Span(4, 7)], "bytes"),
        (replace(_TASK, last=9), [Span(0, 8)], ""),  # of many pieces of evidence not all are listed
        (replace(_TASK, where=(), require="whole"), [Span(0, 16)], ""),
        (replace(_TASK, where=(), require="whole"), [Span(0, 17)], "bytes"),
        (replace(_TASK, where=(Span(9, 15),), last=15), [Span(14, 15)], "bytes"),  # the value of a JSON member
        (replace(_TASK, where=(Span(9, 15),), last=15), [Span(9, 13)], ""),
    ],
)
def test_bytes_are_seen_or_not(task: Task, spans: list[Span], how: str) -> None:
    assert judge.verdict(task, _DATA, judge.ranges(spans)) == how


def _grep(text: str, **arguments: object) -> Reply:
    return Reply("context_grep", {"pattern": "b", **arguments}, text)


_COUNTED = "h · 12 matches in 3 lines, 17 bytes · 2 different values, 2 shown · seen so far: 1 %\n<000000>\n9 × b\n3 × c\n</000000>"
_TABLE = "h · 2 rows · seen so far: 1 %\n<000000>\nname | n\nb | 2\nc | 1\n</000000>"
_NONE = "h · 0 matches in 3 lines, 17 bytes · seen so far: 1 %"


@pytest.mark.parametrize(
    ("kind", "gold", "reply", "how"),
    [
        ("count", "12", _grep(_COUNTED), "computed"),
        ("count", "9", _grep(_COUNTED, group=True), "computed"),
        ("count", "9", _grep(_COUNTED), ""),  # without group, such a line is a line of the output
        ("count", "17", _grep(_COUNTED), ""),
        ("count", "9", _grep("h · 12 matches on 9 of 30 lines\n"), "computed"),  # lines are counted too
        ("count", "30", _grep("h · 12 matches on 9 of 30 lines\n"), ""),
        ("count", "2", _grep(_COUNTED, group=True), "computed"),  # different values
        ("aggregate", "b", _grep(_COUNTED, group=True), "computed"),
        ("aggregate", "b", _grep(_COUNTED.replace("9 × b", '9 × "level": "b"'), group=True), "computed"),
        ("aggregate", "b", _grep(_COUNTED.replace("9 × b", "9 × bc"), group=True), ""),
        ("aggregate", "b", _grep(_COUNTED.replace("9 × b", f"9 × {'a ' * 30}b"), group=True), ""),  # a line, no value
        ("aggregate", "c", _grep(_COUNTED, group=True), ""),  # listed, but not the first
        ("needle", "c", _grep(_COUNTED, group=True), "computed"),
        ("needle", "1", Reply("context_query", {"sql": "…"}, _TABLE), "computed"),
        ("needle", "7", Reply("context_query", {"sql": "…"}, _TABLE), ""),
        ("compare", "c", Reply("context_query", {"sql": "…"}, _TABLE), "computed"),
        ("absent", "", _grep(_NONE), "computed"),
        ("absent", "", _grep(_NONE, pattern="y"), ""),  # a search that would not have found it
        ("absent", "", _grep(_COUNTED), ""),
        ("count", "12", Reply("context_grep", {"pattern": "b"}, _COUNTED, is_error=True), ""),
    ],
)
def test_what_is_computed_over_everything_counts(kind: str, gold: str, reply: Reply, how: str) -> None:
    task = replace(_TASK, type=kind, gold=(gold,), where=(Span(0, 17),), absent="bx")
    assert judge.verdict(task, _DATA, judge.ranges([]), replies=[reply]) == how


def test_lines_that_sql_gives_count_as_far_as_they_agree() -> None:
    asked: dict[str, object] = {"sql": "select line_no, text from t"}
    right = "h · 1 row · seen so far: 1 %\n<000000>\nline_no | text\n2 | b 2\n</000000>"
    assert judge.verdict(_TASK, _DATA, judge.ranges([]), replies=[Reply("context_query", asked, right)]) == "bytes"
    quoted = Reply("context_query", asked, right.replace("b 2", '"b 2"'))  # a cell that could be misread is JSON
    assert judge.verdict(_TASK, _DATA, judge.ranges([]), replies=[quoted]) == "bytes"
    wrong = Reply("context_query", asked, right.replace("b 2", "b 3"))
    assert judge.verdict(_TASK, _DATA, judge.ranges([]), replies=[wrong]) == ""


@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("1,820 × Report/Bug", "notice"),
        ("~1,820 × Report/Bug", ""),  # from a sample
        ("1,820 × Report/Class", ""),  # of something else
        ("11,820 × Report/Bug", ""),
    ],
)
def test_a_notice_tells_a_count_only_exactly_and_of_what_is_asked(line: str, how: str) -> None:
    task = replace(_TASK, type="count", question="How many bugs are there?", gold=("1820",), where=(Span(0, 17),))
    assert judge.verdict(task, _DATA, judge.ranges([]), notice=f"x\n{line}\ny") == how


# ── The usual ways to cut ───────────────────────────────────────────────────────────────────────────────────


def test_a_cut_keeps_what_it_says() -> None:
    lines = "".join(f"line {at} 东\n" for at in range(3000)).encode()
    (kept,) = clamps.first(lines)
    assert lines[: kept.end].count(b"\n") == 2000
    assert clamps.first(b"x" * 100_000) == (Span(0, 51_200),)
    assert clamps.few_lines(b"x" * 100_000) == (Span(0, 2048), Span(97_952, 100_000))
    head, tail = clamps.few_lines(lines)
    assert (lines[: head.end].count(b"\n"), lines[tail.start :].count(b"\n")) == (20, 20)
    for tokens in (101, 4000):
        assert tokens - 4 <= clamps.cost(lines, clamps.both_ends(tokens)(lines)) <= tokens
    assert clamps.both_ends(4000)(b"short\n") == (Span(0, 6),)
