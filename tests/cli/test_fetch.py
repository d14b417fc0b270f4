"""The commands that show something of a kept output, run for real: what goes to which stream, and the exit codes."""

import asyncio
import csv
import gzip
import hashlib
import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from holdall import Holdall, Running, Settings
from tests.cli.program import Program, in_a_shell, started_as
from tests.packed import zipped
from tests.requirements import requirement

LOG = b"".join(
    b"2026-01-01 00:00:%02d %s job %d\n" % (n % 60, b"ERROR" if n % 1000 == 7 else b"INFO", n) for n in range(5000)
)
SIZE = f"{len(LOG):,}"
FOR_A_MODEL = {"HOLDALL_READER": "model"}
ITEMS = json.dumps({"items": [{"id": n, "name": f"n{n}", "tags": ["a", "b"]} for n in range(3000)]}).encode()


@requirement("cli:cat", "cli:content-to-stdout", "api:keep-and-fetch")
def test_cat_gives_the_exact_bytes(holdall: Program) -> None:
    data = bytes(range(256)) * 1000
    ran = holdall("cat", holdall.put(data))
    assert (ran.code, ran.out, ran.err) == (0, data, "")


def test_cat_and_a_count_say_what_is_not_whole(holdall: Program) -> None:
    packed = gzip.compress(LOG)
    inside = holdall.put(packed[: len(packed) // 2]) + "!"
    ran = holdall("cat", inside)
    assert 0 < len(ran.out) < len(LOG)
    assert LOG.startswith(ran.out)
    why = "interrupted: the packed data end early; the rest is missing\n"
    assert (ran.code, ran.err) == (
        3,
        f"{why}holdall: this is not the whole of {inside}, only its first {len(ran.out):,} bytes.\n",
    )
    assert holdall("cat", inside, "--json").code == 3
    counted = holdall("grep", "-c", inside, "INFO")
    assert int(counted.text) == ran.out.count(b" INFO")
    assert counted.err == "interrupted: the packed data end early; the rest is missing\n"


@requirement("cli:read-lines", "cli:about-to-stderr", "cli:exit-0", "cli:plain-pipes")
def test_read_by_lines_prints_them_and_says_where_they_are(holdall: Program) -> None:
    ran = holdall("read", holdall.put(LOG), "--lines", "8:9")
    lines = "2026-01-01 00:00:07 ERROR job 7\n2026-01-01 00:00:08 INFO job 8\n"
    assert ran.text == lines
    start = LOG.index(lines.encode())
    end = start + len(lines)
    assert ran.err == f"lines 8–9 of 5,000 · bytes {start}–{end} of {SIZE} · chars {start}–{end} of {SIZE}\n"
    assert ran.code == 0


@requirement("cli:read-bytes", "cli:read-chars")
def test_read_by_bytes_and_by_chars(holdall: Program) -> None:
    handle = holdall.put("zwölf Bücher".encode())
    assert holdall("read", handle, "--bytes", "2:4").out == "ö".encode()
    assert holdall("read", handle, "--chars", "2:3").out == "ö".encode()
    assert holdall("read", handle, "--chars=-6:").text == "Bücher"


@requirement("cli:explicit-range-whole")
def test_an_explicit_range_is_printed_whole_and_no_range_is_a_page(holdall: Program) -> None:
    handle = holdall.put(LOG)
    assert holdall("read", handle, "--bytes", "0:").out == LOG
    page = holdall("read", handle)
    assert LOG.startswith(page.out)
    assert 0 < len(page.out) <= 16 * 1024
    assert f"next: holdall read {handle} --lines " in page.err
    assert (
        "read is by the page in a pipe too, unless it is given a range; cat prints all."
        in holdall("help", "pipes").text
    )


@requirement("cli:json-read", "cli:json-tail", "cli:json-slice", "cli:json-everywhere")
@pytest.mark.parametrize(
    "command", [("read", "--lines", "2:3"), ("tail", "-n", "2"), ("slice", "--start", "5", "--length", "9")]
)
def test_passages_have_a_stable_json_form(holdall: Program, command: tuple[str, ...]) -> None:
    handle = holdall.put(LOG)
    told = holdall(command[0], handle, *command[1:], "--json").json
    assert {"text", "bytes", "lines", "total"} <= set(told)
    start, end = told["bytes"]
    assert LOG[start:end].decode() == told["text"]
    assert told["total"] == {"bytes": len(LOG), "chars": len(LOG), "lines": 5000}


@requirement("cli:tail-n")
def test_tail_prints_the_last_lines(holdall: Program) -> None:
    assert holdall("tail", "-n", "2", holdall.put(b"1\n2\n3\n")).out == b"2\n3\n"


def test_the_advice_of_a_note_names_the_flag(holdall: Program) -> None:
    value = {"a": 1, "wide": {"x": {f"key {number}": {"a" * (number % 7 + 1): number} for number in range(600)}}}
    ran = holdall("query", holdall.put(json.dumps(value).encode()), "select a, wide from t")
    assert ran.err.endswith(" or make a table of it with --at.\n")
    assert "--at" not in holdall("query", "--json", holdall.put(json.dumps(value).encode()), "select a from t").err


@requirement("cli:grep", "cli:grep-count", "cli:grep-group", "cli:json-grep")
def test_grep_of_several_outputs_has_the_handle_before_each_line(holdall: Program) -> None:
    one, two = holdall.put(b"a\nb\nc\n"), holdall.put(b"b\n")
    ran = holdall("grep", one, two, "^[bx]", "-C", "1")
    assert (ran.code, ran.text) == (0, f"{one}-1-0-a\n{one}:2:2:b\n{one}-3-4-c\n{two}:1:0:b\n")
    assert ran.err == f"{one}: 1 match on 1 of 3 lines, 6 bytes\n{two}: 1 match on 1 of 1 line, 2 bytes\n"
    assert holdall("grep", one, two, "b", "-m", "1").text == f"{one}:2:2:b\n{two}:1:0:b\n"
    assert holdall("grep", two, one, "a", "--count").text == f"{two}:0\n{one}:1\n"
    assert holdall("grep", two, one, "(a|b)", "--group").text == f"{two}:1  b\n{one}:1  a\n{one}:1  b\n"
    told = holdall("grep", one, two, "a", "--json").json["outputs"]
    assert [(found["handle"], len(found["matches"])) for found in told] == [(one, 1), (two, 0)]
    assert holdall("grep", one, two, "never").code == 1
    wrong = holdall("grep", one, "zzzz", "b")
    assert (wrong.code, wrong.out) == (2, b"")
    assert holdall("grep", one, two, "b", "--from", "1").code == 2
    holdall("rm", two)
    gone = holdall("grep", one, two, "b", "--json")
    assert (gone.code, gone.out) == (3, b"")


@requirement("cli:grep", "cli:grep-max", "cli:json-grep")
def test_grep_prints_line_byte_and_text_and_its_json_has_them_all(holdall: Program) -> None:
    handle = holdall.put(LOG)
    ran = holdall("grep", handle, "ERROR job (1007|2007)")
    first, second = LOG.index(b"ERROR job 1007"), LOG.index(b"ERROR job 2007")
    assert ran.text.splitlines() == [
        f"1008:{first}:2026-01-01 00:00:47 ERROR job 1007",
        f"2008:{second}:2026-01-01 00:00:27 ERROR job 2007",
    ]
    assert ran.err.startswith(f"2 matches on 2 of 5,000 lines, {SIZE} bytes")
    told = holdall("grep", handle, "ERROR", "-m", "2", "--json").json
    assert told["total"] == 5
    assert len(told["matches"]) == 2
    for match in told["matches"]:
        assert LOG[match["byte"] :].startswith(b"ERROR")
        assert {"line", "byte", "char", "text"} <= set(match)
    some = holdall("grep", handle, "ERROR", "-m", "2")
    assert f"2 shown; go on with --from {told['next']}" in some.err
    rest = holdall("grep", handle, "ERROR", "--from", str(told["next"]))
    assert len(rest.text.splitlines()) == 3


@requirement("cli:grep", "cli:query-sql", "cli:query-path", "cli:plain-pipes")
def test_a_pipe_gets_everything_that_is_found(holdall: Program) -> None:
    log, items = holdall.put(LOG), holdall.put(ITEMS)
    found = holdall("grep", log, "job", "-C", "1")
    assert [line for line in found.text.splitlines() if line[0] != " "] == [
        f"{n + 1}:{at}:{LOG[at - shift : at + 4].decode()}{n}" for n, at, shift in _jobs()
    ]
    assert found.err.startswith(f"5,000 matches on 5,000 of 5,000 lines, {SIZE} bytes\n")
    assert holdall("grep", log, "job", "--last").text.count("\n") == 5000
    assert holdall("grep", log, r"job (\d+)", "--group").text.count("\n") == 5000
    told = holdall("grep", log, "job", "--json").json
    assert [one["line"] for one in told["matches"]] == [*range(1, 5001)]
    assert (told["total"], told["next"], told["more"]) == (5000, None, False)
    rows = holdall("query", log, "select line_no from t")
    assert rows.text.split() == ["line_no", *map(str, range(1, 5001))]
    assert rows.err == "5,000 rows\n"
    told = holdall("query", log, "select line_no from t", "--json").json
    assert (len(told["rows"]), told["columns"], told["total"], told["more"]) == (5000, ["line_no"], 5000, False)
    values = holdall("query", items, "--path", "$.items[*].id")
    assert values.text.split() == [*map(str, range(3000))]
    assert values.err.splitlines()[5:] == ["the places of all of them: --json", "3,000 values"]
    assert len(holdall("query", items, "--path", "$.items[*].id", "--skip", "2990", "--json").json["nodes"]) == 10


def _jobs() -> list[tuple[int, int, int]]:
    """The number of each line, where `job` stands, and how far that is from its beginning."""
    starts = [0, *(at + 1 for at, byte in enumerate(LOG) if byte == 10)][:5000]
    return [(n, LOG.index(b"job", at), LOG.index(b"job", at) - at) for n, at in enumerate(starts)]


@requirement("cli:grep-max", "cli:query-sql")
def test_a_page_says_that_there_is_more(holdall: Program) -> None:
    log, items = holdall.put(LOG), holdall.put(ITEMS)
    for command in (
        ("grep", log, "job"), ("grep", log, r"\d+$", "--group"), ("query", log, "select * from t"),
        ("query", items, "--path", "$.items[*]"),
    ):  # fmt: skip
        assert holdall(*command, "-m", "2", "--json").json["more"] is True
    seen = _on_a_terminal(holdall, "grep", log, "job").decode()
    assert seen.count(" job ") == 100
    assert "100 shown; go on with --from " in seen
    assert "; a pipe gets all: | less" in seen


@requirement("cli:query-sql")
def test_rows_before_a_fault_are_printed_and_the_fault_is_reported(holdall: Program) -> None:
    handle = holdall.put(LOG)
    # The rows are many, since those that DuckDB has at hand when it fails are lost: DuckDB 1 has thousands.
    fails = "cast(if(line_no = 5000 and r = 19, 'x', '1') as int) as n"
    ran = holdall("query", handle, f"select repeat('y', 100) as y, {fails} from t, range(20) as x(r)")
    assert ran.code == 2
    assert set(ran.text.split()) == {"y", "n", "y" * 100, "1"}
    assert ran.err.startswith("holdall: Conversion Error")
    rows = len(ran.text.splitlines()) - 1
    assert f"compares text. What was given before that, {rows:,} rows, is not the whole answer.\n" in ran.err


@requirement(
    "cli:grep-i",
    "cli:grep-fixed",
    "cli:grep-context",
    "cli:grep-count",
    "cli:grep-group",
    "grep:before-after",
    "grep:last",
)
def test_grep_and_its_flags(holdall: Program) -> None:
    handle = holdall.put(b"one\nTwo (x)\nthree\nTWO (y)\n")
    assert holdall("grep", handle, "two", "-i", "--count").out == b"2\n"
    assert holdall("grep", handle, "(x)", "-F").text == "2:8:Two (x)\n"
    assert holdall("grep", handle, "three", "-C", "1").text == "2-4-Two (x)\n3:12:three\n4-18-TWO (y)\n"
    assert holdall("grep", handle, "three|TWO", "-B", "1", "-A", "0").text == "2-4-Two (x)\n3:12:three\n4:18:TWO (y)\n"
    apart = holdall.put(b"".join(b"%d\n" % at for at in range(9)))
    between = "2:2:1\n3-4-2\n--\n5:8:4\n6-10-5\n7:12:6\n8-14-7\n"
    assert holdall("grep", apart, "[146]", "-A", "1").text == between  # as grep does
    assert holdall("grep", apart, "[146]", "-A", "1", "-m", "5").text == between
    assert "--" not in holdall("grep", apart, "[146]").text
    assert holdall("grep", handle, "o", "-i", "--last", "-m", "1").text == "4:20:TWO (y)\n"
    tabs = holdall.put(b"\ta\r\n\tb\r\n")  # as they are, and each line once, also where its \r matches
    assert holdall("grep", tabs, "b", "-B", "1").text == "1-0-\ta\n2:5:\tb\n"
    assert holdall("grep", tabs, ".").text == "1:0:\ta\n2:4:\tb\n"
    assert holdall("grep", handle, r"\((\w)\)|one", "--group", "-m", "1", "--json").json["distinct"] == 3
    assert holdall("grep", holdall.put(b"b a b\na b\n"), r"\w", "--group").text == "3  b\n2  a\n"


@requirement("cli:diff", "diff:lines", "diff:same-bytes")
def test_diff_of_two_outputs_and_of_one_and_the_last_of_the_same_tool(holdall: Program) -> None:
    one, other = holdall.put(b"a\nb\nc\n", "--tool", "t"), holdall.put(b"a\nx\nc\n", "--tool", "t")
    ran = holdall("diff", one, other)
    assert (ran.code, ran.text) == (0, "L2 byte 2 → L2 byte 2\n- b\n+ x\n")
    assert ran.err.startswith(f"1 of 3 lines changed (from {one} to {other})")
    assert holdall("diff", other).text == ran.text
    told = holdall("diff", one, other, "--json").json
    assert (told["changed"], told["changes"][0]["after"]["lines"]) == (1, [2, 2])
    assert holdall("diff", one, holdall.put(b"a\nb\nc\n")).code == 1
    repeated = [holdall.put(json.dumps([{"id": at % 4, "v": 0} for at in range(most)]).encode()) for most in (5, 6)]
    assert holdall("diff", *repeated).err.endswith("have the same id: compared by place (with --key id by it)\n")


@requirement("cli:diff", "diff:lines")
def test_a_pipe_gets_every_change(holdall: Program) -> None:
    one, other = (
        holdall.put(b"".join(b"%d %s\n" % (number, sign * (number % 2)) for number in range(600)))
        for sign in (b"a", b"b")
    )
    ran = holdall("diff", one, other)
    assert ran.text.count("\n+ ") == 300
    assert ran.err == f"300 of 600 lines changed (from {one} to {other})\n"
    told = holdall("diff", one, other, "--json").json
    assert (len(told["changes"]), told["more"]) == (300, False)
    assert holdall("diff", one, other, "-m", "2").text.count("\n+ ") == 2


@requirement("cli:diff", "diff:lines", "diff:json")
def test_a_pipe_gets_all_of_every_change(holdall: Program) -> None:
    first, second, third = ([str(number) for number in span] for span in (range(1, 21), range(100, 113), range(21, 31)))
    one, other = (holdall.put("\n".join(lines).encode()) for lines in (first + third, first + second + third))
    for options in ((), ("-m", "1")):
        assert holdall("diff", one, other, *options).text == "L21–33 byte 51\n" + "".join(f"+ {n}\n" for n in second)
    (change,) = holdall("diff", one, other, "--json").json["changes"]
    assert (change["after"]["text"], change["after"]["cut"]) == ("\n".join(second), False)
    long = [json.dumps({"a": sign * 3000, "b": [sign * 3000]}).encode() for sign in "xy"]
    one, other = map(holdall.put, long)
    changes = holdall("diff", one, other, "--json").json["changes"]
    assert [json.loads(change["after"]["text"]) for change in changes] == ["y" * 3000, "y" * 3000]
    assert [len(line) for line in holdall("diff", one, other).text.splitlines()] > [6000, 6000]
    one, other = (
        holdall.put(b"id,s\n1,%s\n2,%s\n" % (sign * 3000, sign * 3000), "--kind", "csv") for sign in (b"x", b"y")
    )
    assert [len(line) for line in holdall("diff", one, other).text.splitlines()] > [6000, 6000]


@requirement("cli:exit-1", "grep:nothing-found")
def test_nothing_found_is_exit_code_one_and_says_what_was_searched(holdall: Program) -> None:
    handle = holdall.put(LOG)
    ran = holdall("grep", handle, "FATAL")
    assert (ran.code, ran.out) == (1, b"")
    assert ran.err.startswith(f"0 matches in 5,000 lines, {SIZE} bytes")
    assert holdall("slice", handle, "--anchor", "nowhere").code == 1
    past = holdall("read", handle, "--lines", "9000:")
    assert (past.code, past.out) == (1, b"")
    assert past.err == f"nothing there: the output ends at line 5,000, byte {SIZE}, char {SIZE}\n"


@requirement("cli:slice-start", "cli:slice-anchor")
def test_slice_by_position_and_around_an_anchor(holdall: Program) -> None:
    handle = holdall.put("aé漢😀z aé漢😀z".encode())
    assert holdall("slice", handle, "--start", "1", "--length", "3").text == "é漢😀"
    assert holdall("slice", handle, "--anchor", "漢", "--window", "2", "--match-index", "1").text == "é漢😀"


@requirement("cli:query-path")
def test_what_a_path_cannot_is_told_in_the_words_of_the_command_line(holdall: Program) -> None:
    ran = holdall("query", holdall.put(ITEMS), "--path", "$.items[-1]")
    assert ran.code == 2
    assert ran.err.endswith(
        'use SQL for that: holdall query HANDLE "select * from t offset (select count(*) - 1 from t)" '
        "--at PATH OF THE ARRAY.\n"
    )


@pytest.mark.in_full(one_in=4)
@requirement("cli:query-sql")
@pytest.mark.parametrize("kind", ["json", "ndjson", "csv"])
@pytest.mark.parametrize(
    "sql",
    ["select id, v from t order by id", "select * from t order by v, id", "select * from t", "from t where id >= 0"],
)
def test_a_pipe_gets_every_row_however_they_are_ordered(holdall: Program, kind: str, sql: str) -> None:
    """What is asked of the database beside the rows (is a column that is ordered text?) must not end their answer."""
    records = [{"id": number * 7919 % 3001, "v": "x" if number % 1000 == 7 else number} for number in range(3001)]
    text = {
        "json": json.dumps({"items": records}),
        "ndjson": "".join(f"{json.dumps(one)}\n" for one in records),
        "csv": "id,v\n" + "".join(f"{one['id']},{one['v']}\n" for one in records),
    }[kind]
    handle = holdall.put(text.encode())
    asked = holdall("query", handle, sql, "--csv", *(("--at", "$.items") if kind == "json" else ()))
    rows = list(csv.DictReader(asked.text.splitlines()))
    assert len(rows) == 3001
    assert {int(row["id"]) for row in rows} == set(range(3001))
    assert "3,001 rows" in asked.err
    assert ("Not all of v is numbers, so its order is that of text" in asked.err) == ("order by v" in sql)


@requirement("cli:query-csv", "cli:query-sql")
def test_rows_as_csv_are_what_a_reader_of_csv_takes_back(holdall: Program) -> None:
    handle = holdall.put(LOG)
    rows = ["plain", "a, b", 'says "x"', "two\nlines", "tab\there", "", None]
    cells = ", ".join("null" if one is None else f"'{one}'" for one in rows)
    asked = holdall("query", handle, f'select unnest([{cells}]) as "the, text", 1.5 as n, [1, 2] as l', "--csv")
    assert asked.code == 0
    assert asked.text.splitlines()[:2] == ['"the, text",n,l', 'plain,1.5,"[1, 2]"']
    assert [row[0] for row in csv.reader(asked.text.splitlines(keepends=True))] == [
        "the, text",
        *[one or "" for one in rows],
    ]
    assert asked.text.endswith('"",1.5,"[1, 2]"\n,1.5,"[1, 2]"\n')  # an empty text, and none
    alone = holdall("query", handle, "select null as one", "--csv")
    assert list(csv.reader(alone.text.splitlines())) == [["one"], [""]]
    all_of_it = holdall("query", handle, "select line_no, text from t", "--csv").text
    assert all_of_it.startswith("line_no,text\n1,2026-01-01 00:00:00 INFO job 0\n")
    assert all_of_it.count("\n") == 5001
    assert "give one of the two" in holdall("query", handle, "select 1", "--csv", "--json").err
    assert "--csv is for the rows of SQL" in holdall("query", handle, "--path", "$", "--csv").err


@requirement("cli:query-sql", "cli:query-path", "cli:query-at")
def test_query_by_sql_by_path_and_at_an_array(holdall: Program) -> None:
    handle = holdall.put(ITEMS)
    assert holdall("query", handle, "select len(items) as n from t").out == b"n\n3000\n"
    at = holdall("query", handle, "select id, name from t where id < 2 order by id", "--at", "$.items")
    assert at.text == "id\tname\n0\tn0\n1\tn1\n"
    assert at.err.startswith("2 rows")
    assert holdall("query", handle, "--path", "$.items[2].name").text == '"n2"\n'
    assert holdall("query", handle, "--path", "/items/2/tags").text == '["a", "b"]\n'
    assert holdall("query", handle, "--path", "$.nothing").code == 1
    assert holdall("query", handle).code == 2
    text = holdall.put(b"a,b\n1,2\n3,4\n")
    refused = holdall("query", text, "select 1 from t", "--at", "$.items").err
    assert refused.startswith(f"holdall: --at chooses a part of t, and {text} is not JSON: ")
    assert "also" not in refused
    two = holdall("query", text, "select 1 from t", "--at", "$.items", "--also", handle).err
    other = "What --also names is reached into with unnest, or is t itself where the two change places."
    assert two == refused.replace("\n", f" {other}\n")
    assert holdall("query", handle, "select 1", "--at", "$.no").err.startswith("holdall: --at names nothing. ")


@requirement("cli:query-also")
def test_a_table_that_is_another_output_is_answered_with_also(holdall: Program) -> None:
    one, other = holdall.put(b"a,b\n1,2\n"), holdall.put(b"a,b\n3,4\n", "--call-id", "call-7")
    for name, told in ((other, other), ('"call-7"', "call-7")):
        ran = holdall("query", one, f"select a from {name}")
        assert ran.code == 2
        assert ran.err.endswith(f" What --also names is a table, too: {told} is an output.\n")
        assert holdall("query", one, f"select a from {name}", "--also", told).text == "a\n3\n"
    assert "--also" not in holdall("query", one, "select a from nowhere").err


@requirement("cli:ls", "cli:show", "session:listed")
def test_ls_and_show(holdall: Program) -> None:
    assert holdall("ls").code == 1
    handle = holdall.put(LOG, "--tool", "fetch")
    assert holdall("ls").text.split("\n")[1].split()[:5] == [handle, "fetch", "kept", "log", f"{len(LOG) / 1000:.1f}"]
    shown = holdall("show", handle)
    assert f"sha256         {hashlib.sha256(LOG).hexdigest()}\n" in shown.text
    assert holdall("show", handle, "--json").json["lines"] == 5000
    for data, sign in ((LOG, ""), (LOG * 10, "~")):
        handle = holdall.put(data, "--tool", "fetch")
        told = holdall("show", handle, "--json").json
        assert (f"\ntokens         {sign}{told['tokens']:,}\n" in holdall("show", handle).text, told["tokens_exact"]) == (
            True, not sign
        )  # fmt: skip
    assert [one["name"] for one in holdall("ls", "--sessions", "--json").json["sessions"]] == ["cli"]


@requirement("ledger:in-facts", "cli:show")
def test_show_tells_how_much_of_an_output_a_model_has_seen(holdall: Program) -> None:
    told = holdall("put", "--json", stdin=LOG, env=FOR_A_MODEL).json
    handle = told["handle"]
    before = holdall("show", handle, "--json").json["coverage"]
    assert before["retrievals"] == 0
    assert all(LOG[start:end].decode() in told["notice"] for start, end in before["shown"])
    assert before["seen"] == round(sum(end - start for start, end in before["shown"]) / len(LOG), 6) > 0
    page = holdall("read", handle, "--json", env=FOR_A_MODEL).json["bytes"]  # as much as one answer to a model holds
    seen = holdall("show", handle, "--json").json["coverage"]
    rest = [span for span in before["shown"] if span[0] > page[1]]
    assert seen == {
        "seen": round(sum(end - start for start, end in [page, *rest]) / len(LOG), 6),
        "retrievals": 1,
        "shown": [page, *rest],
    }
    holdall("cat", handle)
    holdall("read", handle)
    holdall("grep", handle, "ERROR")
    assert holdall("show", handle, "--json").json["coverage"] == seen  # a person's own reading is no model's
    assert holdall("show", handle).text.split("\n")[-4:] == [
        f"seen           {seen['seen'] * 100:.1f} %",
        f"shown          bytes {', '.join(f'{start:,}–{end:,}' for start, end in seen['shown'])}",
        "retrievals     1",
        "",
    ]


@requirement("ledger:in-facts", "cli:ls")
def test_ls_has_a_column_for_what_a_model_has_seen(holdall: Program) -> None:
    def put(data: bytes, *arguments: str) -> str:
        return holdall(*arguments, "put", "--json", stdin=data, env=FOR_A_MODEL).json["handle"]

    small, log, huge = put(b"all of it\n"), put(LOG), put(b"0123456789" * 1_000_000)
    clamped, unseen = put(LOG, "--set", "dialect=clamp"), put(LOG, "--set", "dialect=extract")
    by_hand = holdall.put(LOG)
    header, *rows = holdall("ls").text.splitlines()
    at = header.index("SEEN") + len("SEEN")
    assert {row.split()[0]: " ".join(row[:at].split()[-2:]) for row in rows} == {
        small: "100 %",
        log: "<0.1 %",
        huge: "<0.1 %",
        clamped: "30.2 %",
        unseen: "5,000 -",
        by_hand: "5,000 -",
    }
    listed = {one["handle"]: one["seen"] for one in holdall("ls", "--json").json["outputs"]}
    assert (listed[small], listed[unseen]) == (1.0, 0.0)
    assert 0 < listed[huge] < 0.001


@requirement("ledger:in-facts")
def test_whatever_a_model_reads_with_these_commands_is_in_the_ledger(holdall: Program) -> None:
    handle = holdall("put", "--json", "-s", "cc-1a2b3c4d", stdin=LOG).json["handle"]
    before = 0.0
    commands = (
        ("grep", handle, "job 77"), ("grep", handle, "job 78", "-C", "1", "--json"), ("read", handle, "--lines", "90:99"),
        ("read", handle, "--bytes", "9000:9100", "--json"), ("tail", handle, "-n", "30"), ("slice", handle, "--start", "70", "--length", "50"),
        ("cat", handle),
    )  # fmt: skip
    for done, command in enumerate(commands, 1):
        assert holdall(*command, "-s", "cc-1a2b3c4d", env={"HOLDALL_READER": "person"}).code == 0
        assert holdall(*command, "-s", "cc-1a2b3c4d").code == 0
        seen = holdall("show", handle, "--json", "-s", "cc-1a2b3c4d").json["coverage"]
        assert seen["retrievals"] == done, command
        assert seen["seen"] > before, command
        before = seen["seen"]
    assert before == 1.0
    assert holdall("query", handle, "select count(*) from t", "-s", "cc-1a2b3c4d").code == 0
    assert holdall("stats", "--json", "-s", "cc-1a2b3c4d").json["counters"]["retrievals"] == {
        "cat": 1, "grep": 2, "query": 1, "read": 2, "slice": 1, "tail": 1,
    }  # fmt: skip


@requirement("ledger:in-facts")
def test_the_shell_of_a_coding_agent_is_read_by_its_model(holdall: Program) -> None:
    for arguments, env, seen in (
        (("-s", "cc-1a2b3c4d"), {}, 1.0),
        (("-s", "cc-1a2b3c4e"), {"HOLDALL_READER": "person"}, 0.0),
        (("-s", "build"), {}, 0.0),
    ):
        holdall("put", *arguments, stdin=b"x\n", env=env)
        assert holdall("ls", "--json", *arguments).json["outputs"][0]["seen"] == seen
    wrong = holdall("ls", "-s", "build", env={"HOLDALL_READER": "cat"})
    assert (wrong.code, wrong.err) == (
        2,
        "holdall: HOLDALL_READER is 'cat'; it must be model or person, or left out.\n",
    )


@requirement("cli:exit-2", "cli:no-traceback", "store:foreign-as-unknown")
@pytest.mark.parametrize(
    "handle",
    [
        "zzzz",
        "../../../etc/passwd",
        "session-00000000-0000-0000-0000-000000000000/00000000-0000-0000-0000-000000000000",
    ],
)
def test_an_unknown_handle_is_named_with_what_there_is(holdall: Program, handle: str) -> None:
    kept = holdall.put(b"x")
    ran = holdall("read", handle)
    assert (ran.code, ran.out) == (2, b"")
    assert (
        ran.err
        == f'holdall: no output is kept under "{handle[:100]}" in session "cli". Kept: {kept}. (`holdall ls` lists them.)\n'
    )


@requirement("cli:session-flag", "cli:session-environment", "store:inside-session")
def test_a_session_holds_its_own_outputs_only(holdall: Program) -> None:
    handle = holdall.put(b"mine", "--session", "one")
    assert holdall("cat", handle, "--session", "one").out == b"mine"
    assert holdall("cat", handle, env={"HOLDALL_SESSION": "one"}).out == b"mine"
    assert holdall("cat", handle, "--session", "two").code == 2
    assert holdall("--session", "one", "cat", handle).out == b"mine"


@requirement("cli:home-flag", "cli:home-environment", "settings:flag-over-environment")
def test_home_is_what_the_flag_says_else_the_environment(holdall: Program) -> None:
    other = str(holdall.home.parent / "other")
    told = holdall("put", "--json", "--home", other, stdin=b"there").json
    assert holdall("cat", told["handle"]).code == 2
    assert holdall("cat", told["handle"], "--home", other).out == b"there"
    assert holdall("cat", told["handle"], env={"HOLDALL_HOME": other}).out == b"there"


@requirement("measure:escape-bidi", "measure:escape-tags", "measure:escape-facts")
def test_what_a_person_sees_on_a_terminal_is_escaped_and_a_pipe_is_not(holdall: Program) -> None:
    data = "safe\rrm -rf /\x08\x08 \x1b[2J user\u202e \u2066// admin\u2069 \U000e0041".encode()
    handle = holdall.put(data, "--tool", "a\nb\x1b[31m")
    seen = _on_a_terminal(holdall, "cat", handle)
    assert b"safe\\x0drm -rf /\\x08\\x08 \\x1b[2J user\\u202e \\u2066// admin\\u2069 \\U000e0041" in seen
    assert holdall("cat", handle).out == data
    assert b"a\\nb\\x1b[31m" in _on_a_terminal(holdall, "ls")


@requirement("measure:escape-facts")
def test_names_of_columns_and_errors_of_tools_are_escaped_too(holdall: Program) -> None:
    handle = holdall.put(b"a\x1b]0;PWNED\x07,b\n1,2\n3,4\n")
    asked = ("query", handle, "select * from t")
    for shown in (_on_a_terminal(holdall, *asked), holdall(*asked).out):
        assert b"a ]0;PWNED" in shown  # a name is on one line, without signs that nobody sees
        assert b"\x1b]0" not in shown

    async def failing() -> str:
        async with Holdall.open(home=str(holdall.home), session="cli", settings=Settings(slow_after_seconds=0)) as bag:
            go = asyncio.Event()

            async def boom() -> str:
                await go.wait()
                raise RuntimeError("\x1b]0;PWNED\x07 boom")

            running = await bag.run(boom, tool="boom")
            assert isinstance(running, Running)
            go.set()
            await bag.wait(running.handle)
            return running.handle

    shown = holdall("wait", asyncio.run(failing())).text
    assert "failed: RuntimeError: \\x1b]0;PWNED\\x07 boom" in shown
    assert "\x1b]0" not in shown


@requirement("cli:broken-pipe")
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(holdall: Program) -> None:
    handle = holdall.put(b"x\n" * 3_000_000)
    for words, first in (
        (f"cat {handle}", b"x\n"),
        (f"grep {handle} x", b"1:0:x\n"),
        (f"query {handle} 'select text from t'", b"text\n"),
    ):
        ran = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {in_a_shell()} {words} | head -n 1"],
            env=holdall.environment(), capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, first, b"")


@requirement("cli:double-dash")
def test_a_pattern_that_looks_like_a_flag_comes_after_two_dashes(holdall: Program) -> None:
    handle = holdall.put(b"rm -rf @/etc/passwd\n")
    assert holdall("grep", handle, "--", "-rf").text == "1:3:rm -rf @/etc/passwd\n"
    assert holdall("grep", handle, "--", "@/etc/passwd").code == 0
    assert holdall("grep", handle, "-rf").code == 2


def _on_a_terminal(holdall: Program, *arguments: str) -> bytes:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        started_as(*arguments),
        env=holdall.environment({"TERM": "xterm", "NO_COLOR": "1"}),
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(ours)
    process.wait(timeout=100)
    return seen


@requirement("cli:exit-2")
@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("grep", "x", "-c", "--group"), "--count is one number and --group one for each value: give one of the two."),
        (
            ("grep", "x", "-c", "--from", "5"),
            "--from is where the shown matches begin; --count and --group are of the whole output.",
        ),
        (("query", "select 1", "--skip", "4"), "--skip goes with --path; in SQL write OFFSET 4."),
        (("slice", "--start", "1", "--window", "5"), "--window and --match-index go with --anchor."),
        (("slice",), "say what to slice: --start and --length, or an --anchor."),
        (
            ("slice", "--anchor", "x", "--start", "1"),
            "give --start and --length, or --anchor and --window, not both.",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused_by_their_names(
    holdall: Program, command: tuple[str, ...], told: str
) -> None:
    ran = holdall(command[0], holdall.put(b"x\n"), *command[1:])
    assert (ran.code, ran.out, ran.err) == (2, b"", f"holdall: {told}\n")


@requirement("cli:exit-2")
@pytest.mark.parametrize(
    ("command", "flag"),
    [
        (("query", "select * from t", "-m", "0"), "'-m' / '--max'"),
        (("grep", "x", "-m", "0"), "'-m' / '--max'"),
        (("grep", "x", "--from", "-5"), "'--from'"),
        (("grep", "x", "-C", "-1"), "'-C' / '--context'"),
        (("slice", "--anchor", "x", "--match-index", "-1"), "'--match-index'"),
        (("tail", "-n", "-1"), "'-n' / '--lines'"),
    ],
)
def test_a_number_out_of_range_is_refused_by_the_name_of_its_flag(
    holdall: Program, command: tuple[str, ...], flag: str
) -> None:
    ran = holdall(command[0], holdall.put(b"x\n"), *command[1:])
    assert (ran.code, ran.out) == (2, b"")
    assert f"Invalid value for {flag}: {command[-1]} is not in the range" in ran.err


def test_an_occurrence_that_is_not_there_is_told_by_the_name_of_its_flag(holdall: Program) -> None:
    ran = holdall("slice", holdall.put(b"x x\n"), "--anchor", "x", "--match-index", "7")
    assert (ran.code, ran.err) == (
        1,
        "holdall: Anchor not found in content: it occurs 2 times (--match-index 0 to 1).\n",
    )


@requirement("cli:exit-1", "grep:nothing-found")
def test_matches_that_all_lie_before_the_asked_byte_are_told_and_not_shown(holdall: Program) -> None:
    ran = holdall("grep", holdall.put(b"x\nx\n"), "x", "--from", "9000")
    assert (ran.code, ran.out) == (1, b"")
    assert ran.err.startswith("2 matches on 2 of 2 lines, 4 bytes · none of them at byte 9,000 or after it")


@requirement("cli:grep")
def test_a_search_in_packed_bytes_says_that_it_was_not_in_what_they_hold(holdall: Program) -> None:
    archive = holdall.put(zipped({"app/app.log": LOG}))
    ran = holdall("grep", archive, "job 4321")
    assert ran.code == 1
    assert "these are the bytes of a zip, not its files: search HANDLE!NAME; HANDLE! is the list of them" in ran.err
    assert "bytes of" not in holdall("grep", f"{archive}!app/app.log", "job 4321").err
    packed = holdall.put(gzip.compress(LOG))
    assert "bytes of a gzip, not the text that it holds: search HANDLE!" in holdall("grep", packed, "job 4321").err
    wrong = holdall("read", f"{archive}!app/app.lgo")
    assert wrong.code == 2
    assert "no member is called app/app.lgo: it has 1 member, and HANDLE! is the list of them." in wrong.err
    assert wrong.err.endswith(" There is app/app.log.\n")


@requirement("cli:exit-2")
def test_a_person_is_told_which_other_session_has_the_output(holdall: Program) -> None:
    holdall.put(b"other\n")
    handle = holdall.put(b"x\n", "--session", "the build")
    ran = holdall("cat", handle)
    assert ran.code == 2
    assert ran.err.endswith(" It is in session the build: add --session 'the build'\n")
    assert "It is in" not in holdall("cat", "nope").err
    assert "It is in" not in holdall("cat", handle, env=FOR_A_MODEL).err


@pytest.mark.parametrize("command", ["exec", "read", "extract", "run", "show", "demo", "view", "gateway", ""])
def test_an_example_in_the_help_is_a_line_that_can_be_copied(holdall: Program, command: str) -> None:
    told = holdall(*command.split(), "--help", env={"COLUMNS": "60"}).text.splitlines()
    begins = next(at for at, line in enumerate(told) if line.startswith(("  Example:  ", "  Start with:  ")))
    ends = told.index("", begins)
    for line in told[begins:ends]:
        assert line.count("holdall") == 1 or " && " in line


@requirement("packed:members")
def test_commands_take_a_member_of_a_packed_output_as_an_output(holdall: Program) -> None:
    packed = holdall.put(zipped({"logs/app.log": LOG, "items.json": ITEMS}))
    log = f"{packed}!logs/app.log"
    assert holdall("cat", log).out == LOG
    assert holdall("read", log, "--lines", "8:8").text == "2026-01-01 00:00:07 ERROR job 7\n"
    assert holdall("tail", log, "-n", "1", "-f").text == holdall("tail", log, "-n", "1").text == LOG.decode().splitlines(keepends=True)[-1]  # fmt: skip
    assert holdall("grep", log, "ERROR", "--count", "--json").json["total"] == 5
    assert holdall("query", f"{packed}!#2", "select count(*) from t", "--at", "$.items", "--json").json["rows"] == [[3000]]  # fmt: skip
    shown = holdall("show", log, "--json").json
    assert (shown["handle"], shown["bytes"], shown["kind"]) == (log, len(LOG), "log")
    refused = holdall("read", f"{packed}!none")
    assert (refused.code, refused.err) == (2, "holdall: no member is called none: it has 2 members, and HANDLE! is the list of them.\n")  # fmt: skip


def test_two_runs_of_a_command_that_failed_are_compared(holdall: Program, tmp_path: Path) -> None:
    handles: list[str] = []
    for text in ("one", "two"):
        (tmp_path / "log").write_text(f"first\n{text}\n")
        handles.append(holdall("exec", "--json", "--", "sh", "-c", f"cat {tmp_path / 'log'}; exit 1").json["handle"])
    assert holdall("diff", handles[1]).text == "L2 byte 6 → L2 byte 6\n- one\n+ two\n"
