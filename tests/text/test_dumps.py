"""Metrics, dumps of databases and minified scripts: their parts with exact counts, and what only looks like them."""

import contextlib
import random
import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from tests.requirements import requirement
from tests.support import in_effort
from tests.text.outline_tools import outlined, text_of

_RANDOM = random.Random(5)


def metrics(codes: int, handlers: int) -> str:
    lines = ["# HELP http_requests_total Requests.", "# TYPE http_requests_total counter"]
    lines += [
        f'http_requests_total{{code="{200 + code}",handler="/h{handler}"}} {code * handler}'
        for code in range(codes)
        for handler in range(handlers)
    ]
    lines += ["# HELP wait_seconds How long.", "# TYPE wait_seconds histogram"]
    for handler in range(handlers):
        lines += [f'wait_seconds_bucket{{handler="/h{handler}",le="{le}"}} 3' for le in ("0.1", "1", "+Inf")]
        lines += [f'wait_seconds_sum{{handler="/h{handler}"}} 1.5e-3', f'wait_seconds_count{{handler="/h{handler}"}} 3']
    lines += ["# TYPE job_count gauge", "job_count 7 1700000000000", "# TYPE up untyped", "up NaN"]
    return "\n".join(lines) + "\n"


@requirement("measure:kind-metrics")
def test_metrics_tell_their_types_and_the_largest_with_one_sample() -> None:
    assert text_of(metrics(3, 40)) == snapshot("""\
metrics
4 metrics, 322 samples: 1 counter, 1 histogram, 1 gauge, 1 untyped
200 × wait_seconds · wait_seconds_bucket{handler="/h0",le="0.1"} 3
120 × http_requests_total · http_requests_total{code="200",handler="/h0"} 0
1 × job_count · job_count 7 1700000000000
1 × up · up NaN\
""")
    assert [(lead.verb, lead.arguments) for lead in outlined(metrics(3, 40)).leads] == snapshot(
        [
            ("grep", {"pattern": '^wait_seconds\\w*\\{.*\\bhandler="([^"]*)"', "group": True}),
            ("grep", {"pattern": "^job_count", "limit": 5}),
        ]
    )


@given(st.integers(1, 5), st.integers(1, 30))
def test_the_counts_of_metrics_are_exact(codes: int, handlers: int) -> None:
    first = outlined(metrics(codes, handlers)).lines[0]
    assert first.startswith(f"4 metrics, {codes * handlers + 5 * handlers + 2:,} samples: ")


def dump(users: int, orders: int) -> str:
    with contextlib.closing(sqlite3.connect(":memory:")) as base:
        base.execute("create table users(id integer primary key, name varchar(40), mail text, check (id > 0))")
        base.execute('create table "orders"(id integer, user_id int, total decimal(9, 2), note text)')
        base.executemany("insert into users values(?, ?, ?)", [(n + 1, f"n{n}", "a@b.c") for n in range(users)])
        base.executemany(
            "insert into orders values(?, ?, ?, ?)", [(n, 1, n * 1.5, "two\nlines; it's (so)") for n in range(orders)]
        )
        return "\n".join(base.iterdump()) + "\n"


def copied(rows: int) -> str:
    data = "".join(f"{n}\tname {n}\t1.5\n" for n in range(rows))
    return f"""\
--
-- PostgreSQL database dump
--

SET statement_timeout = 0;

CREATE TABLE public.users (
    id integer NOT NULL,
    "full name" character varying(40),
    price numeric(10,2) DEFAULT 0.00,
    CONSTRAINT c PRIMARY KEY (id)
);

COPY public.users (id, "full name", price) FROM stdin;
{data}\\.

COPY public.empty (a) FROM stdin;
\\.

ALTER TABLE ONLY public.users ADD CONSTRAINT x UNIQUE (id);
"""


@requirement("measure:kind-sql")
def test_a_dump_tells_its_tables_with_their_columns() -> None:
    assert text_of(dump(30, 70)) == snapshot("""\
sql dump
2 tables, 100 INSERT statements
orders(id, user_id, total, note): 70 INSERT statements
users(id, name, mail): 30 INSERT statements\
""")
    assert text_of(copied(300)) == snapshot("""\
sql dump
2 tables, 300 rows
public.users(id, full name, price): 300 rows
public.empty(a)\
""")
    assert [(lead.verb, lead.arguments) for lead in outlined(dump(30, 70)).leads] == snapshot(
        [("grep", {"pattern": "\\bINTO \\S*orders\\b", "ignore_case": True, "after": 2, "limit": 2})]
    )


@given(st.integers(0, 60), st.integers(1, 60))
def test_the_counts_of_a_dump_are_exact(users: int, orders: int) -> None:
    told = outlined(dump(users, orders)).lines
    assert told[0] == f"2 tables, {users + orders:,} INSERT statement{'' if users + orders == 1 else 's'}"
    rows = outlined(copied(users + 1)).lines
    assert rows[0] == f"2 tables, {users + 1:,} row{'' if users == 0 else 's'}"


def minified(functions: int) -> str:
    body = ";".join(
        f"function f{n}(a,b){{return a.x({n},b)?b.y:void 0}}var g{n}=(t)=>t.map(e=>e.id)" for n in range(functions)
    )
    return f'/*! lib v1.2 | (c) 2026 | MIT */!{body};fetch("https://api.example.org/v1/items");\n//# sourceMappingURL=lib.min.js.map\n'


STYLE = "/*! theme */" + "".join(
    f".c{n}{{color:#{n:06x};margin:0 auto}}@media print{{.p{n}{{display:none}}}}" for n in range(400)
)


@requirement("measure:kind-script")
def test_a_minified_script_tells_what_it_says_of_itself_and_what_it_calls() -> None:
    assert text_of(minified(200)) == snapshot("""\
minified script
200 × function, 400 × =>, 1 × fetch(; longest line 15,145 bytes
it says: lib v1.2 | (c) 2026 | MIT
source map: lib.min.js.map
addresses in it: https://api.example.org/v1/items\
""")
    assert text_of(STYLE) == snapshot("""\
minified CSS
1,200 × {, 400 × @media; longest line 26,592 bytes
it says: theme\
""")
    assert [(lead.verb, lead.arguments) for lead in outlined(minified(200)).leads] == snapshot(
        [
            ("grep", {"pattern": "https?://([\\w.-]+)", "group": True}),
            ("grep", {"pattern": "function (\\w{3,40})\\(", "group": True}),
        ]
    )


@pytest.mark.parametrize(
    "text",
    [
        "# HELP is here\n# TYPE of thing\nsome words 12\nmore words 3\n" * 30,
        "name 1\nother 2\nthird 3\n" * 30,  # no comment says what these are
        "To make a table:\n\nCREATE TABLE x (a int);\n\nThen fill it, as the next page tells,\nand read on. It is prose.\n" * 20,
        "INSERT INTO the machine a coin;\n" + "and wait for it\nto come out again\n" * 30,
        "lorem ipsum dolor sit amet " * 3_000,
        "QUJD+/" * 9_000,
        "function f() {\n  return 1;\n}\n" * 900,
    ],
    ids=["headings", "pairs", "prose with sql", "prose like sql", "one line", "base64", "source"],
)  # fmt: skip
def test_what_only_looks_like_it_is_not_claimed(text: str) -> None:
    assert outlined(text).label not in ("metrics", "sql dump", "minified script", "minified CSS")


HOSTILE = {
    "labels": "# TYPE a counter\na 1\n" + ('a{' + 'x="' * 1_300 + "\n") * 2_000,
    "names": "# TYPE a counter\n" + "".join(f"{_RANDOM.randbytes(9).hex():a>30} 1\n" for _ in range(60_000)),
    "brackets": "CREATE TABLE x (\n" + "(" * 400_000,
    "tables": "".join(f"CREATE TABLE t{n} (a int, b int);\n" for n in range(30_000)),
    "open copies": "CREATE TABLE a (b int);\n" + "COPY a (b) FROM stdin;\n" * 20_000,
    "banners": "/*" * 200_000 + "function a(){return b}" * 9_000,
    "styles": ".a{b:" * 90_000,
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_hostile_costs_no_more_than_anything_else(name: str) -> None:
    found = in_effort(100, lambda: outlined(HOSTILE[name]))
    assert found.lines
    assert len("\n".join(found.lines)) <= 1_500


@pytest.mark.parametrize("kind", ["metrics", "sql dump"])
def test_of_what_was_not_read_to_its_end_no_figure_is_a_total(kind: str) -> None:
    text = metrics(400, 500) if kind == "metrics" else copied(900_000)
    told = outlined(text)
    assert told.label == kind
    assert told.lines[0].count("at least") >= 2
