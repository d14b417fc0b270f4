"""How the tests of notices get them, outputs of every kind to tell of, and the calls that a notice offers."""

import csv
import functools
import hashlib
import io
import itertools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from holdall.store.reader import FileReader
from holdall.text.tokens import Estimate, default_tokenizer
from holdall.values.outputs import Origin
from holdall.values.settings import NOTICE_TOKENS
from holdall.verbs.preview import notice_view
from holdall.wire.dialect import View
from holdall.wire.notice import notice
from tests.support import reader_of

TAG = "7d1a7d1a"
_FULL = "HOLDALL_TEST_FULL" in os.environ
_CALL = re.compile(r"(?P<name>\w+)\(")
_ARGUMENT = re.compile(r"(?:, )?(?P<name>\w+)=")


def reader_with(data: bytes, **facts: Any) -> FileReader:
    """An output with these facts, and `tool` and its like of its origin."""
    reader = reader_of(data, handle="k3f9")
    origin = {name: facts.pop(name) for name in list(facts) if name in Origin.__match_args__}
    reader.facts = replace(reader.facts, origin=Origin(**origin), **facts)
    return reader


def view_of(
    output: str | bytes, *, exact: bool = True, most_tokens: int = NOTICE_TOKENS, tag: str = TAG, **facts: Any
) -> View:
    """`exact`: with a tokenizer that counts, and not one that estimates."""
    data = output if isinstance(output, bytes) else output.encode()
    tokenizer = default_tokenizer() if exact else Estimate()
    tags = itertools.chain([tag], map("{:08x}".format, itertools.count()))  # another where this one occurs
    return notice_view(reader_with(data, **facts), lambda: next(tags), tokenizer=tokenizer, most_tokens=most_tokens)


def notice_of(output: str | bytes, **options: Any) -> str:
    return notice(view_of(output, **options))


def calls_in(text: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls of the line that begins with Next, as a model would make them."""
    line = next((line for line in text.split("\n") if line.startswith("Next: ")), "Next: ")
    calls: list[tuple[str, dict[str, Any]]] = []
    at, decoder = len("Next: "), json.JSONDecoder()
    while found := _CALL.match(line, at):
        at = found.end()
        arguments: dict[str, Any] = {}
        while argument := _ARGUMENT.match(line, at):
            arguments[argument["name"]], at = decoder.raw_decode(line, argument.end())
        assert line[at] == ")"
        calls.append((found["name"], arguments))
        at += len(") · ")
    assert at >= len(line)
    return calls


# ── Outputs ─────────────────────────────────────────────────────────────────────────────────────────────────


@functools.cache
def _number(*parts: int) -> int:
    """The same for the same parts, and without any order in it."""
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big")


_USERS = ("root", "admin", "guest", "pi", "oracle", "test", "backup", "git")
_CITIES = ("Oslo", "Bern", "Riga", "Lima", "Doha")


def _auth_log() -> str:
    lines: list[str] = []
    for n in range(2400):
        stamp = f"Nov {15 + n // 800} {n // 60 % 24:02}:{n % 60:02}:{n % 59:02} host sshd[{1000 + n}]:"
        match n % 4:
            case 0:
                said = f"Failed password for {_USERS[_number(n) % 8]} from 10.0.{n % 7}.{n % 251} port {4000 + n} ssh2"
            case 1:
                said = f"Connection closed by 10.0.{n % 7}.{n % 251} port {4000 + n} [preauth]"
            case _:
                said = f"Accepted {'publickey' if n % 8 > 3 else 'password'} for bob from 10.1.1.1 port {4000 + n} ssh2"
        lines.append(f"{stamp} {said}\n")
    lines[1700] = "Nov 17 04:20:48 host sshd[2700]: fatal: no matching cipher found for 10.9.9.9\n"
    return "".join(lines)


def _csv() -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["id", "Country/Region", "order", "price", "day"])
    for n in range(3000):
        city = _CITIES[_number(n) % 5]
        writer.writerow([n, city, f"first, {n}", n * 1.5, f"2026-01-{n % 28 + 1:02}"])
    return text.getvalue()


def _record(n: int) -> dict[str, Any]:
    status = ("open", "paid", "void")[_number(n) % 3]
    return {"id": n, "name": f"item {_number(n, 1)}", "status": status, "user": {"city": _CITIES[n % 5]}, "tags": ["a"]}


@functools.cache
def _line(n: int) -> str:
    return json.dumps(_record(n)) + "\n"


_PATHS = {f"/api/v{n % 3}/pods{n}": {"get": {"operationId": f"listPods{n}", "tags": ["core"]}} for n in range(400)}


def _mixed(other: str, each: int) -> str:
    """Lines of JSON: objects, and each so many lines something else."""
    return "".join(f"{other}\n" if n % each == each - 1 else _line(n) for n in range(2000))


@functools.cache
def _rows() -> str:
    return json.dumps([_record(n) for n in range(2000)])


@functools.cache
def _half() -> list[dict[str, Any]]:
    return [{**_record(n), "name": "cut \ud83d" if n == 700 else f"item {n}"} for n in range(2000)]


class Made(Mapping[str, str | bytes]):
    """Each is made when it is asked for first: whoever only looks for tests needs the names alone."""

    def __init__(self, makers: Mapping[str, Callable[[], str | bytes]]) -> None:
        self._makers = makers
        self._made: dict[str, str | bytes] = {}

    def __getitem__(self, name: str) -> str | bytes:
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


_MAKERS: dict[str, Callable[[], str | bytes]] = {
    "log": _auth_log,
    "log with levels": lambda: "".join(
        f"2026-01-01 {n // 60 % 24:02}:{n % 60:02}:{n % 60:02} worker-{n % 4} "
        + (f"ERROR disk {n} is gone\n" if n == 1500 else f"INFO job {n} done in {n % 90} ms\n")
        for n in range(3000)
    ),
    "access log": lambda: "".join(
        f'10.0.{n % 9}.{n % 77} - - [10/Oct/2026:13:{n // 60 % 60:02}:{n % 60:02} +0000] "GET /p/{n} HTTP/1.1" '
        f"{(200, 200, 404, 500)[_number(n) % 4]} {n}\n"
        for n in range(2000)
    ),
    "json, one line": lambda: json.dumps({"page": 1, "items": [_record(n) for n in range(2000)], "total": 2000}),
    "json, a member a line": lambda: json.dumps(
        {"openapi": "3.0.0", "paths": _PATHS, "info": {"title": "x"}}, indent=2
    ),
    "json, an array": lambda: json.dumps([_record(n) for n in range(1500)], indent=1),
    "json, a map": lambda: json.dumps({f"user-{n}": {"age": n, "city": _CITIES[n % 5]} for n in range(2000)}),
    "json, numbers": lambda: json.dumps([_number(n) for n in range(20_000)]),
    "json, strange names": lambda: json.dumps(
        [{"a b'c\"d": n, "select": n % 3, "naïve café": "x"} for n in range(3000)]
    ),
    "json, cut off": lambda: json.dumps([_record(n) for n in range(2000)])[:90_000],
    "ndjson": lambda: "".join(map(_line, range(2000))),
    "ndjson, then a word": lambda: "".join(map(_line, range(2000))) + "Done\n",
    "ndjson, cut off": lambda: "".join(map(_line, range(2000)))[:-30],
    "ndjson, broken early": lambda: "".join((json.dumps(_record(n)) if n != 5 else "oops") + "\n" for n in range(2000)),
    "json, then a word": lambda: _rows() + "\nDone in 3 s\n",
    "json, then a word with brackets": lambda: _rows() + "\nDone [ok]\n",
    "json, an object, then a word": lambda: (
        json.dumps({"page": 1, "items": [_record(n) for n in range(2000)]}) + "\nDone\n"
    ),
    "json, a member a line, then a word": lambda: json.dumps({"page": 1, "paths": _PATHS}, indent=2) + "\nDone {}\n",
    "json, a map, then a word": lambda: json.dumps({f"user-{n}": {"age": n} for n in range(2000)}) + "\nDone\n",
    "json, little, then a log": lambda: '{"page": 1, "k": [1, 2]}\n' + _auth_log(),
    "json, large, then a word": lambda: json.dumps([{"id": n, "v": n % 4} for n in range(300_000)]) + "\nDone\n",
    "json, two": lambda: (
        json.dumps({"page": 1, "items": [1]}, indent=2) + json.dumps({"page": 2, "items": [2] * 20_000})
    ),
    "json, two arrays": lambda: _rows() + "\n" + _rows(),
    "json, records one after the other": lambda: "".join(json.dumps(_record(n)) for n in range(2000)),
    "json, many small ones": lambda: "".join(json.dumps({"i": n}) for n in range(50_000)),
    "json, records and a word": lambda: "".join(json.dumps(_record(n)) for n in range(2000)) + "Done {}",
    "json, objects over lines": lambda: "".join(json.dumps(_record(n), indent=1) + "\n" for n in range(2000)),
    "json, half a pair": lambda: json.dumps(_half()),
    "json, half a pair in a map": lambda: json.dumps({f"user-{n}": one for n, one in enumerate(_half())}),
    "ndjson, half a pair": lambda: "".join(json.dumps(one) + "\n" for one in _half()),
    "json, raw control signs": lambda: _rows().replace("item", "it\x01em"),
    "json, names twice": lambda: "[" + ",".join(f'{{"a":{n},"a":{n},"b":"x{n}"}}' for n in range(4000)) + "]",
    "json, a name of nothing": lambda: json.dumps([{"": n, "b": f"x{n}"} for n in range(4000)]),
    "json, objects and others": lambda: json.dumps(
        [_record(n) if n % 20 else [5, "s", None, [1]][n // 20 % 4] for n in range(2000)]
    ),
    **{
        f"ndjson, {other} in {each} lines": functools.partial(_mixed, other, each)
        for first, other in enumerate(("null", "1.5", '"s"', "[1, 2]", "{}"))
        for second, each in enumerate((2, 3, 8, 20, 50))
        if _FULL or (first + second) % 5 < 2  # by default each value with two shares, and each share with two values
    },
    "csv": _csv,
    "csv, texts only": lambda: "name,city\n" + "".join(f"n{_number(n)},{_CITIES[n % 5]}\n" for n in range(3000)),
    "csv, no header": lambda: "".join(f"{n},{n * 2},{n * 3}\n" for n in range(6000)),
    "tsv": lambda: "id\tcity\n" + "".join(f"{n}\t{_CITIES[n % 5]}\n" for n in range(6000)),
    "pytest": lambda: (
        "= test session starts =\n"
        + "".join(f"test_{n % 30}.py::test_{n} PASSED\n" for n in range(2500))
        + "=== FAILURES ===\n____ test_two ____\n\n    def test_two():\n>       assert 1 == 2\nE       assert 1 == 2\n\n"
        + "a.py:5: AssertionError\n=== short test summary info ===\nFAILED a.py::test_two\n"
        + "=== 1 failed, 2500 passed in 3.20s ===\n"
    ),
    "compiler": lambda: "".join(
        f"src/m{n % 9}.c:{n}:5: {'error' if n % 90 == 7 else 'warning'}: unused variable 'v{n}'\n" for n in range(1500)
    ),
    "traceback": lambda: "".join(
        f'step {n} of the job is done\nTraceback (most recent call last):\n  File "/a/b.py", line {n}, in run\n'
        f"    raise KeyError({n})\n{('Key', 'Value', 'Type')[_number(n) % 3]}Error: {n}\n"
        for n in range(700)
    ),
    "diff": lambda: "".join(
        f"diff --git a/src/f{n}.py b/src/f{n}.py\nindex 1..2 100644\n--- a/src/f{n}.py\n+++ b/src/f{n}.py\n@@ -1,2 +1,3 @@\n"
        " same\n-old\n" + "+new line\n" * (n % 17)
        for n in range(600)
    ),
    "html": lambda: (
        "<!DOCTYPE html><html><head><title>A page</title></head><body>\n"
        + "".join(f'<h2>Part {n}</h2>\n<p>Words and <a href="/go/{n % 5}">more</a></p>\n' for n in range(900))
        + "</body></html>\n"
    ),
    "markdown": lambda: "".join(
        f"## Part {n}\n\nSome words with a [link](https://x.org/{n}).\n\n- one\n" for n in range(1500)
    ),
    "xml": lambda: (
        '<?xml version="1.0"?>\n<bugs>\n'
        + "".join(f'  <bug type="T{_number(n) % 7}" line="{n}"><at file="f{n}.c"/></bug>\n' for n in range(1500))
        + "</bugs>\n"
    ),
    "prose": lambda: "".join(f"The {n} sheep went over the hill and {_number(n)} came back.\n\n" for n in range(3000)),
    "one line": lambda: "lorem ipsum dolor " * 8000,
    "chinese": lambda: "漢字かな交じり文の長い行。\n" * 5000,
    "blank": lambda: "\n" * 100_000,
    "binary": lambda: (
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x02\x80\x00\x00\x01\xe0\x08\x06"
        + b"Software: made by a test\x00" * 20
        + bytes(range(256)) * 400
    ),
    "bytes": lambda: bytes(range(256)) * 400,
}
SHAPES = Made(_MAKERS)
