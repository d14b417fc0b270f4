"""Kinds: what an output is, told from its beginning and its end, and what only looks like it."""

import json

import pytest
from hypothesis import given

from holdall.formats.columns import separator_of
from holdall.formats.kinds import json_complaint
from holdall.formats.registry import KINDS, kind_of
from holdall.policy.measure import Measurer
from holdall.text.tokens import Estimate
from holdall.values.outputs import Measure
from tests.requirements import requirement
from tests.text.strategies import messy_bytes

DIFF = """\
diff --git a/x.py b/x.py
index 1..2 100644
--- a/x.py
+++ b/x.py
@@ -1,3 +1,3 @@
 same
-old
+new
"""
LOG = "".join(f"2026-11-15T02:{minute:02}:00Z worker started job {minute}\n" for minute in range(30))
SYSLOG = "".join(f"Nov 15 02:{minute:02}:11 host sshd[{minute}]: Accepted key\n" for minute in range(30))
ISSUES = "id,title,body\n" + "".join(
    f'{number},"Title {number}","# Steps\n\n- one, two\n- three\n\n## Expected\n\n1. nothing\n"\n'
    for number in range(40)
)
PS = (
    "USER         PID %CPU    VSZ TTY      STAT   TIME COMMAND\n"
    "root           1  0.0 168000 ?        Ss     0:05 /sbin/init splash\n"
    "www-data   31234 12.5 9168000 ?       Sl     1:05 nginx: worker process\n"
    "root           2  0.0      0 ?        S      0:00 [kthreadd]\n"
)
PODS = (
    "NAME           READY   STATUS             RESTARTS      AGE\n"
    "web-7d9c-abc   1/1     Running            0             5d\n"
    "web-7d9c-xyz   0/1     CrashLoopBackOff   12 (3m ago)   5d\n"
    "db-0           1/1     Running                          31h\n"
)
DF = (
    "Filesystem     1K-blocks    Used Available Use% Mounted on\n"
    "/dev/sda1       41152736 9999999  29000000  26% /\n"
    "tmpfs            4026532       0   4026532   0% /dev/shm\n"
    "udev                 100       0       100   0% /my disk\n"
)
TRACES = "".join(
    f"[2026-11-15 02:{minute:02}:00,123] ERROR failed (kafka.log)\njava.io.IOException: no\n"
    + "\tat a.B.c(B.java:7)\n" * 9
    for minute in range(30)
)
REQUESTS = "".join(f'10.0.0.{n} - - [10/Oct/2026:13:55:{n:02} +0000] "GET /{n} HTTP/1.1" 200 {n}\n' for n in range(30))
ONE_LINE = "".join(f"{n:03x}4e1{n % 16:x} {'(tag: v1) ' if n == 3 else ''}Mend the {n}th fault\n" for n in range(40))
GRAPH = "".join(f"{'|/  ' if n % 9 == 8 else f'| * {n:03x}4e1d Mend it'}\n" for n in range(40))
COMMITS = "".join(
    f"commit {n:040x}\nAuthor: Ann <a@b.c>\nDate:   Sun Nov 15 02:{n:02}:00 2026 +0000\n\n    Words {n}\n\n"
    for n in range(30)
)
MARKDOWN = (
    "# Title\n\nSome words with a [link](https://example.org).\n\n- one\n- two\n\n## Next\n\n1. first\n2. second\n"
)
PAGE = "<!DOCTYPE html>\n<html><head><title>t</title></head><body><p>x</p></body></html>\n"
TABLE = "name,age,city\nann,31,Rome\nbob,42,Bonn\ncid,53,Nice\n"
ROWS = "".join(json.dumps({"n": number, "ok": True}) + "\n" for number in range(5))
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(range(256))


def measured(data: str | bytes) -> Measure:
    measurer = Measurer(Estimate())
    measurer.feed(data.encode("utf-8") if isinstance(data, str) else data)
    return measurer.finish("")[0]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param("json", '{"a": [1, 2, 3]}', marks=requirement("measure:kind-json"), id="json object"),
        pytest.param("json", '  [\n {"a": 1},\n {"a": 2}\n]\n', marks=requirement("measure:kind-json"), id="json array"),
        pytest.param("json", "[ -1.5e3 , null]", marks=requirement("measure:kind-json"), id="json numbers"),
        pytest.param("json", "[" + "1, " * 50_000 + "1]", marks=requirement("measure:kind-json"), id="json many"),
        pytest.param("json", "[]", marks=requirement("measure:kind-json"), id="json empty"),
        pytest.param("json", '\ufeff{"a": 1}', marks=requirement("measure:kind-json"), id="json after a mark"),
        pytest.param("json", "[" * 5000 + "]" * 5000, marks=requirement("measure:kind-json"), id="json deep"),
        pytest.param("json", '{"a": "' + "x" * 200_000 + '"}', marks=requirement("measure:kind-json"), id="json long"),
        pytest.param("ndjson", ROWS, marks=requirement("measure:kind-ndjson"), id="ndjson"),
        pytest.param("ndjson", "[1,2]\n[3,4]\n", marks=requirement("measure:kind-ndjson"), id="ndjson arrays"),
        pytest.param(
            "ndjson", '{"n": 1}\nnull\n1.5\n"s"\n[]\n', marks=requirement("measure:kind-ndjson"), id="ndjson of anything"
        ),
        pytest.param("ndjson", '{"n": 1}\nWARN again\n' + '{"n": 2}\n' * 30, id="ndjson with a word between"),
        pytest.param("ndjson", ROWS * 5000, marks=requirement("measure:kind-ndjson"), id="ndjson long"),
        pytest.param(
            "ndjson", '{"n": 1}\n{"n": ' + "7" * 5000 + "}\n", marks=requirement("measure:kind-ndjson"), id="ndjson digits"
        ),
        pytest.param("csv", TABLE, marks=requirement("measure:kind-csv"), id="csv commas"),
        pytest.param("tsv", TABLE.replace(",", "\t"), marks=requirement("measure:kind-tsv"), id="tsv"),
        pytest.param("csv", TABLE.replace(",", "|"), marks=requirement("measure:kind-csv"), id="csv pipes"),
        pytest.param("csv", ISSUES, marks=requirement("measure:kind-csv"), id="csv with markdown in its cells"),
        pytest.param("csv", "1,Ann,2020-01-01\n" * 9, marks=requirement("measure:kind-csv"), id="csv without a header"),
        pytest.param("table", PS, marks=requirement("measure:kind-table"), id="ps"),
        pytest.param("table", PODS, marks=requirement("measure:kind-table"), id="kubectl get"),
        pytest.param("table", DF, marks=requirement("measure:kind-table"), id="df"),
        pytest.param("csv", 'a;b\n"x;y";2\n"z";3\n', marks=requirement("measure:kind-csv"), id="csv quoted"),
        pytest.param("html", PAGE, marks=requirement("measure:kind-html"), id="html"),
        pytest.param("html", "<html lang=en>\n<body>x", marks=requirement("measure:kind-html"), id="html bare"),
        pytest.param("xml", '<?xml version="1.0"?>\n<a><b c="1"/></a>\n', marks=requirement("measure:kind-html"), id="xml"),
        pytest.param("xml", "<testsuite>\n<testcase/>\n</testsuite>", marks=requirement("measure:kind-html"), id="xml bare"),
        pytest.param("text", "<bob> hello\n<ann> hi\n", marks=requirement("measure:kind-text"), id="a chat"),
        pytest.param("markdown", MARKDOWN, marks=requirement("measure:kind-markdown"), id="markdown"),
        pytest.param("log", LOG, marks=requirement("measure:kind-log"), id="log iso"),
        pytest.param("log", TRACES, marks=requirement("measure:kind-log-with-traces"), id="log with traces"),
        pytest.param("access log", REQUESTS, marks=requirement("measure:kind-access-log"), id="access log"),
        pytest.param("git log", COMMITS, marks=requirement("measure:kind-git-log"), id="git log"),
        pytest.param("diff", COMMITS + DIFF * 20, marks=requirement("measure:kind-git-log"), id="git log with changes"),
        pytest.param("log", SYSLOG, marks=requirement("measure:kind-log"), id="log syslog"),
        pytest.param("log", "INFO up\nERROR down\nDEBUG x\nWARNING y\n", marks=requirement("measure:kind-log"), id="log levels"),
        pytest.param("diff", DIFF, marks=requirement("measure:kind-diff"), id="diff git"),
        pytest.param("diff", DIFF[DIFF.index("---") :], marks=requirement("measure:kind-diff"), id="diff plain"),
        pytest.param("text", "Just a few words.\nAnd some more.\n", marks=requirement("measure:kind-text"), id="text"),
        pytest.param("text", "", marks=requirement("measure:kind-text"), id="text empty"),
        pytest.param("text", " \n\n\t\n", marks=requirement("measure:kind-text"), id="text blank"),
        pytest.param("text", "caf\xe9 au lait\n".encode("latin-1") * 20, marks=requirement("measure:kind-text"), id="latin"),
        pytest.param("text", "a \xe9t\xe9 supprim\xe9 \xe0 cause d'une v\xe9rification\n".encode("latin-1") * 200, marks=requirement("measure:kind-text"), id="latin, with many accents"),
        pytest.param("git log", ONE_LINE, marks=requirement("measure:kind-git-log"), id="git log --oneline"),
        pytest.param("git log", GRAPH, marks=requirement("measure:kind-git-log"), id="git log --oneline --graph"),
        pytest.param("git log", "* " + COMMITS.replace("\n", "\n| "), marks=requirement("measure:kind-git-log"), id="git log --graph"),
        pytest.param("text", ONE_LINE.replace(" ", "  ", 1).replace("\n", "\nx  "), marks=requirement("measure:kind-text"), id="sums"),
        pytest.param("png", PNG, marks=requirement("measure:kind-image"), id="png"),
        pytest.param("jpeg", b"\xff\xd8\xff\xe0" + bytes(99), marks=requirement("measure:kind-image"), id="jpeg"),
        pytest.param("gif", b"GIF89a" + bytes(99), marks=requirement("measure:kind-image"), id="gif"),
        pytest.param("webp", b"RIFF\0\0\0\0WEBPVP8 " + bytes(99), marks=requirement("measure:kind-image"), id="webp"),
        pytest.param("text", "GIF89a is the name of a format.\n", marks=requirement("measure:kind-image"), id="not gif"),
        pytest.param("utf-16", "hi".encode("utf-16"), marks=requirement("measure:kind-binary"), id="utf-16"),
        pytest.param("binary", b"\xff\xfe" + bytes(99), marks=requirement("measure:kind-binary"), id="not utf-16"),
        pytest.param("binary", bytes(range(128, 256)) * 9, marks=requirement("measure:kind-binary"), id="binary high"),
    ],
)  # fmt: skip
def test_an_output_is_of_the_kind_that_it_looks_like(kind: str, data: str | bytes) -> None:
    assert measured(data).kind == kind


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        pytest.param("text", '{"a": 1, oops', id="not json: never closed"),
        pytest.param("text", "[note] see below\nand then]", id="not json: only brackets"),
        pytest.param("log", "[12:00:01] up [ok]\n[12:00:02] down [no]\n", id="not json: a log in brackets"),
        pytest.param("text", "[1] first\n[2] second [see 1]\n", id="not json: footnotes"),
        pytest.param("text", "{% block %}\ntemplate\n{% end %}", id="not json: a template"),
        pytest.param("json", '{\n "a": 1\n}\n', id="not ndjson: one value over lines"),
        pytest.param("text", '{"a": 1}\nplain words\n{"a": 2}\n!', id="not ndjson: other lines between"),
        pytest.param("text", "Well, yes.\nNo.\nMaybe, or maybe not, or so.\n", id="not csv: only commas"),
        pytest.param("text", "one,two\n", id="not csv: a single line"),
        pytest.param("text", "a,b\n1,2\n" * 9000 + LOG * 40, id="not csv: most of it is a log"),
        pytest.param("text", "Name:    web\nNamespace:  default\nLabels:   app=web\n", id="not a table: fields"),
        pytest.param("text", "Dear  all,\nit rains, and\nwe go home now\nto sleep a bit\n", id="not a table: words"),
        pytest.param("text", "Use the <b> tag, not <html5>.\n", id="not html: talk of tags"),
        pytest.param("text", "# comment\nx = 1\n" + "y = 2\n" * 40, id="not markdown: code with a comment"),
        pytest.param("text", "#!/bin/bash\n" + "# a step\n\nrun it\n" * 40, id="not markdown: a script"),
        pytest.param("text", "# what it is\n# and for whom\n#\nkey yes\n\n" * 40, id="not markdown: a configuration"),
        pytest.param("text", "\n\n# the next one\ndef f():\n    pass\n" * 40, id="not markdown: functions with comments"),
        pytest.param("text", "# define A 1\n# define B 2\nint f(int);\n" * 40, id="not markdown: a header of C"),
        pytest.param("markdown", "# T\n\nwords\n" + "## A part\n- one\n- two\n" * 40, id="markdown without blank lines"),
        pytest.param(
            "text",
            "".join(f"1a2b3c4{n:02} (A Name 2026-11-15 10:00:{n:02} +0000 {n:3}) line {n} of it\n" for n in range(40)),
            id="not a git log: git blame",
        ),
        pytest.param("markdown", "# One\n\nwords\n\n" * 40, id="markdown of one level"),
        pytest.param("text", "In 2026-11-15 something happened.\nAnd then nothing.\nWords.\nMore.\n", id="not log: a date"),
        pytest.param("text", "- milk\n- bread\n+ eggs\n", id="not diff: a list"),
        pytest.param("text", "x" * 20 + "\xff" + "y" * 20, id="not binary: a stray letter"),
        pytest.param("text", b"plain text " * 50 + b"\xff\xfe" + b" and more" * 50, id="not binary: stray bytes"),
    ],
)  # fmt: skip
def test_what_only_looks_like_a_kind_is_not_of_it(kind: str, data: str | bytes) -> None:
    assert measured(data).kind == kind


@given(messy_bytes)
def test_anything_at_all_is_of_some_kind(data: bytes) -> None:
    assert measured(data).kind in KINDS


def test_a_beginning_that_is_cut_off_still_tells_the_kind() -> None:
    rows = ROWS.encode() * 3000
    assert kind_of(rows[:65536], rows[-1024:], whole=False, valid=True) == "ndjson"
    log = LOG.encode() * 3000
    assert kind_of(log[:65536], log[-1024:], whole=False, valid=True) == "log"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('{"a":NaN,"b":-Infinity}', "not strict JSON: it has NaN"),  # STORE-018
        ("[-Infinity]", "not strict JSON: it has -Infinity"),
        ('{"a": 1 "b"}', "not valid JSON: Expecting ',' delimiter: line 1 column 9 (char 8)"),
    ],
)
def test_json_that_is_not_strict_is_said_to_be_so(text: str, note: str) -> None:
    found = measured(text)
    assert (found.kind, found.notes) == ("json", (note,))


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',  # STORE-019
        "[1e400,-0.0,0.30000000000000004]",  # STORE-021
        '{"big": ' + "9" * 10_000 + "}",
        "[" * 5000 + "]" * 5000,
    ],
    ids=["duplicate keys", "numbers", "many digits", "deep"],
)
def test_json_that_is_strict_has_no_complaint(text: str) -> None:
    assert json_complaint(text) is None
    assert measured(text).notes == ()


@pytest.mark.parametrize(
    "text",
    ["# a\n" + "\n" * 65_000, "# a\n" + "[" * 65_000, "# a\n" + "[a](" * 16_000, "# a\n" + " " * 65_000, "# a\n" + "|" * 65_000],
    ids=["blank lines", "open brackets", "open links", "blanks", "bars"],
)  # fmt: skip
@pytest.mark.timeout(5)
def test_no_beginning_makes_telling_the_kind_quadratic(text: str) -> None:
    # The first three took over a minute each while a run of blanks or brackets was read anew from every place.
    assert measured(text).kind in KINDS


@pytest.mark.parametrize(
    ("rows", "sign"),
    [
        (["a,b", "1,2"], ","),
        (["a\tb", "1\t2"], "\t"),
        (["a|b|c", "1|2|3"], "|"),
        (["a;b", "1;2", "3;4"], ";"),
        (["a,b"], None),
        (["a b", "1 2"], None),
        (["a,b", "1,2,3", "4"], None),
        ([",b", "1,2"], None),
    ],
)
def test_the_separator_is_the_sign_that_parts_nearly_every_line_alike(rows: list[str], sign: str | None) -> None:
    assert separator_of("\n".join(rows)) == sign


def test_the_usual_log_of_a_python_program_is_a_log_though_each_line_has_a_comma() -> None:
    lines = "".join(f"2026-01-01 00:00:{n % 60:02},{n % 1000:03} INFO worker started job {n}\n" for n in range(300))
    assert kind_of(lines.encode(), b"", whole=True, valid=True) == "log"


@pytest.mark.parametrize("blank", ["\n", "\n \r\n\n", "\ufeff\n"])
@pytest.mark.parametrize(("line", "kind"), [("x", "text"), ('{"a": "x', "text"), ("2026-11-15T02:00:00Z up ", "log")])
def test_a_line_that_never_ends_behind_blank_ones_is_told_like_any_other(blank: str, line: str, kind: str) -> None:
    assert measured(blank + line + "x" * 200_000).kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\n" + "".join(f"# step {n}\necho {n} >> out\n\n" for n in range(40)),
        "".join(f"# section {n}\ndef f{n}(x):\n    return x + {n}\n\n" for n in range(40)),
        "".join(f"# What it is for,\n# and what it may be.\n#\nNAME_{n} yes\n\n" for n in range(40)),
        "#ifndef X_H\n" + "".join(f"# define A{n} 1\n# include <a{n}.h>\nint f{n}();\n" for n in range(40)),
    ],
    ids=["shell", "python", "settings", "c"],
)
def test_comments_and_directives_are_no_headings(text: str) -> None:
    assert measured(text.encode()).kind == "text"


@pytest.mark.parametrize(
    "text",
    [
        "# Title\n\n" + "".join(f"## Part {n}\nIts text.\n\n" for n in range(40)),
        "# Title\n\n"
        + "".join("text\n\n```bash\n# one\n# two\nls\n```\n\n~~~\n# a\n```\n# b\n~~~\n" for _ in range(40)),
        "".join(f"# Part {n}\n\nIts text.\n\n" for n in range(40)),
        "# Title\n## Part\n### Of it\n\n- one\n- two\n",
    ],
)
def test_headings_beside_comments_in_code_stay_headings(text: str) -> None:
    assert measured(text.encode()).kind == "markdown"


@pytest.mark.parametrize("sign", [",", "\t", ";"])
def test_a_column_without_a_name_is_an_index_where_it_is_filled(sign: str) -> None:
    rows = "".join(f"2026-01-{n % 28 + 1:02}{sign}{n / 4}\n" for n in range(60))
    assert measured(f"{sign}close\n{rows}").kind == ("tsv" if sign == "\t" else "csv")
    assert measured(f"{sign}go build\n" * 60).kind == "text"


def test_a_blame_is_no_list_of_commits() -> None:
    blame = "".join(
        f"{n % 5:08x} (A Name 2026-11-{n % 28 + 1:02} 02:36:44 +0000 {n:>3}) line {n} of it\n" for n in range(1, 60)
    )
    assert measured(blame.replace("00000001", "^000000a")).kind == "text"
    assert measured("".join(f"{n * 7919:08x} Mend {n} of them\n" for n in range(11, 60))).kind == "git log"


@requirement("measure:kind-git-log")
@pytest.mark.parametrize(
    "line", ["{0:07x} 457f 464c 0{0:03x} 0001", "{0:040x} blob {0}", "{0:040x} refs/tags/v{0}", "{0:08x} T symbol_{0}"]
)
def test_bytes_objects_references_and_symbols_are_no_commits(line: str) -> None:
    assert measured("".join(line.format(n * 7919) + "\n" for n in range(11, 60))).kind == "text"
