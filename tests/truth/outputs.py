"""Outputs to tell of: made by rule from a seed, made by tools on the machine, and real ones where they are at hand."""

import importlib
import json
import random
import re
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

Make = Callable[[random.Random], bytes]
ROOT = Path(__file__).parents[2]
_ARTIFACTS = ROOT.parent / "shared" / "bench" / "artifacts"
_YAML: Any = importlib.import_module("yaml")  # it has no types
_WORDS = [
    "job",
    "disk",
    "user",
    "order",
    "cache",
    "login",
    "query",
    "index",
    "page",
    "token",
    "host",
    "queue",
    "batch",
    "event",
    "frame",
    "lock",
]
_VERBS = ["opened", "closed", "failed", "started", "stopped", "moved", "lost", "found", "sent", "refused"]
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def _say(rng: random.Random) -> str:
    return f"{rng.choice(_WORDS)} {rng.randrange(1000)} {rng.choice(_VERBS)} by {rng.choice(_WORDS)}"


def _lines(rng: random.Random, make: Callable[[int], str], least: int = 5, most: int = 900) -> bytes:
    text = "\n".join(make(n) for n in range(rng.randrange(least, most)))
    return (text + rng.choice(["", "\n"])).encode()


def log(rng: random.Random) -> bytes:
    """With levels, in any order of times, with a trace here and there."""
    levels = rng.choice([["INFO"], ["INFO", "WARN", "ERROR"], ["DEBUG", "INFO", "ERROR", "FATAL", "TRACE"]])
    form = rng.choice(
        [
            "{d} {t} {l} {m}",
            "[{d}T{t}.{f:03}Z] {l}: {m}",
            "{d} {t},{f:03} [main-{f}] {l}  a.b.C - {m}",
            '{d}T{t}+02:00 level={s} msg="{m}"',
            "{d}T{t}Z {s} {m}",
            "[{d} {t}] {s}: {m}",
        ]
    )

    def line(n: int) -> str:
        if rng.random() < 0.05:
            return (
                "java.lang.IllegalStateException: no "
                + rng.choice(_WORDS)
                + "\n\tat a.B.c(B.java:7)\n\tat a.Main.main(Main.java:3)"
            )
        at = n * 37 + rng.randrange(-500, 500) * rng.choice([0, 1])
        day, second = divmod(max(0, at), 86400)
        level = rng.choice(levels)
        return form.format(
            d=f"2026-{day // 28 % 12 + 1:02}-{day % 28 + 1:02}", t=f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}",
            f=rng.randrange(1000), l=level, s=level.lower(), m=_say(rng),
        )  # fmt: skip

    return _lines(rng, line)


def mixed_log(rng: random.Random) -> bytes:
    """With paths of any length before the level, beside lines of another program without times."""
    paths = [f"/opt/{'deep/' * rng.randrange(40)}{name}.py" for name in rng.sample(_WORDS, 3)]
    other = rng.choice(
        [
            "{l} {m}",
            "[{l}] {m}",
            "level={s} msg={m}",
            "worker {l} {m}",
            "    {l} {m}",
            "{s}: {m}",
            "Error: {m}\n    at {m}",
        ]
    )

    def line(n: int) -> str:
        level = rng.choice(["INFO", "INFO", "ERROR"])
        if rng.random() < 0.4:
            return other.format(l=level, s=level.lower(), m=_say(rng))
        return (
            f"2026-01-{n // 1440 + 1:02} {n // 60 % 24:02}:{n % 60:02}:07 {rng.choice(paths)}:{n} {level} {_say(rng)}"
        )

    return _lines(rng, line, 50)


def angles(rng: random.Random) -> bytes:
    """Words in the brackets of XML, as some logs and chats have them."""
    form = rng.choice(["<Tue Nov 17 23:{n:02}:00 UTC 2026> <INFO> {m}", "<{w}> {m}", "<{w} {n}> <Info> <{w}> {m}"])
    return _lines(rng, lambda n: form.format(n=n % 60, w=rng.choice(_WORDS), m=_say(rng)), 50)


def zones(rng: random.Random) -> bytes:
    """A log by local time, of several zones or over the end of summer time."""
    form = rng.choice(["{:%Y-%m-%dT%H:%M:%S%z} INFO", "{:%Y-%m-%d %H:%M:%S %z} [INFO]", '1.2.3.4 - - [{:%d/%b/%Y:%H:%M:%S %z}] "GET / HTTP/1.1" 200'])  # fmt: skip
    begin = datetime(2026, 10, 24, 23, 50, tzinfo=UTC)
    offsets = rng.choice([[60, 120], [60, 120, 330, 540], [-60, 0, -450]])

    def line(n: int) -> str:
        offset = rng.choice(offsets) if len(offsets) > 2 else offsets[n < 40]
        return f"{form.format((begin + timedelta(seconds=37 * n)).astimezone(timezone(timedelta(minutes=offset))))} {_say(rng)}"

    return _lines(rng, line, 50)


def hours(rng: random.Random) -> bytes:
    """A log with hours of one digit, with or without halves of the day, over a day and more."""
    form = rng.choice(["{0:%Y-%m-%d} {h}:{0:%M:%S} {p}", "{0:%Y/%m/%d} {0.hour}:{0:%M:%S}", "{0.month}/{0.day}/{0:%Y} {h}:{0:%M:%S} {p}", "{0:%Y-%m-%d %I:%M:%S} {p}"])  # fmt: skip
    begin = datetime(2026, rng.choice([2, 9]), 24, rng.randrange(24), tzinfo=UTC)

    def line(n: int) -> str:
        at = begin + timedelta(seconds=397 * n)
        time = form.format(at, h=at.hour % 12 or 12, p="PM" if at.hour >= 12 else "AM")
        return f"{time} {rng.choice(['INFO', 'INFO', 'WARN', 'ERROR'])} {_say(rng)}"

    return _lines(rng, line, 50)


def syslog(rng: random.Random) -> bytes:
    names = [
        "sshd[{n}]",
        "sshd(pam_unix)[{n}]",
        "CRON[{n}]",
        "kernel",
        "syslogd 1.4.1",
        "app1[{n}]",
        "app2[{n}]",
        "/usr/sbin/cron[{n}]",
    ]
    names = rng.sample(names, rng.randrange(1, len(names)))

    def line(n: int) -> str:
        at = n * 97 + rng.randrange(0, 300)
        name = rng.choice(names).format(n=rng.randrange(1, 99999))
        return f"Mar {1 + at // 86400:2} {at // 3600 % 24:02}:{at // 60 % 60:02}:{at % 60:02} host-{n % 2} {name}: {_say(rng)} from 10.0.{n % 255}.{n % 7}"

    return _lines(rng, line)


def access_log(rng: random.Random) -> bytes:
    def line(n: int) -> str:
        method, status = rng.choice(["GET", "GET", "POST", "HEAD"]), rng.choice([200, 200, 200, 301, 404, 500, 503])
        at = n * 61 + rng.randrange(50)
        path = f"/{rng.choice(_WORDS)}/{rng.randrange(50)}" + rng.choice(["", "?q=a b", '?x=\\"y\\"'])
        said = f"{method} {path} HTTP/1.1"
        if rng.random() < 0.1:  # what is no HTTP
            said, status = rng.choice(
                [("\\x16\\x03\\x01", 400), ("-", 408), ("SSH-2.0-Go", 400), ("M-SEARCH * HTTP/1.1", 501)]
            )
        return (
            f"192.168.{n % 9}.{rng.randrange(255)} - {rng.choice(['-', 'ann'])} [{1 + at // 86400:02}/{_MONTHS[n % 2]}/2026:{at // 3600 % 24:02}:"
            f'{at // 60 % 60:02}:{at % 60:02} +0000] "{said}" {status} {rng.randrange(9999)} "-" "curl/8"'
        )

    return _lines(rng, line, most=300)


def traces(rng: random.Random) -> bytes:
    """A log of which most lines are stack traces."""

    def line(n: int) -> str:
        frames = "".join(f"\n\tat org.a.{rng.choice(_WORDS)}.C.m{k}(C.java:{k})" for k in range(rng.randrange(1, 9)))
        thrown = rng.choice(["Timeout", "IO", "State"])
        return f"[2026-01-{n // 1440 + 1:02} {n // 60 % 24:02}:{n % 60:02}:07,{n % 1000:03}] {rng.choice(['ERROR', 'WARN'])} {_say(rng)} (kafka.server)\norg.apache.{thrown}Exception: ERROR no {rng.choice(_WORDS)}{frames}"

    return _lines(rng, line, most=300)


def addresses(rng: random.Random) -> bytes:
    """Lines that begin with what only looks like a time."""
    return _lines(
        rng,
        lambda n: (
            f"10.{rng.randrange(99):02}.{rng.randrange(99):02}.{n % 255} app-2026.{n:03} {_say(rng)} in 00:0{n % 9}:12"
        ),
    )


def prose(rng: random.Random) -> bytes:
    return _lines(rng, lambda _: rng.choice(["", *([" ".join(rng.choices(_WORDS, k=rng.randrange(1, 14))) + "."] * 4)]))


def shapes(rng: random.Random) -> bytes:
    return _lines(
        rng,
        lambda n: rng.choice(
            [f"{_say(rng)}", f"item {n} ok", f"item ok {rng.choice('abc')}", "done", "item", f"item{n}"]
        ),
    )


def diff(rng: random.Random) -> bytes:
    is_git, parts = rng.random() < 0.7, list[str]()
    for n in range(rng.randrange(1, 40)):
        name = f"src/{rng.choice(_WORDS)} {n}.sql" if rng.random() < 0.2 else f"src/{rng.choice(_WORDS)}{n}.sql"
        parts += [f"diff --git a/{name} b/{name}", "index 1..2 100644"] if is_git else []
        parts += [f"--- a/{name}", f"+++ b/{name}"]
        for _ in range(rng.randrange(1, 4)):
            body = [
                rng.choice([" ", "+", "-"]) + rng.choice(["", "-- a note", "++ b", _say(rng), "+", "--"])
                for _ in range(rng.randrange(1, 12))
            ]
            old, new = (sum(line[0] in " " + sign for line in body) for sign in "-+")
            parts += [f"@@ -1,{old} +1,{new} @@ def {rng.choice(_WORDS)}", *body]
    if is_git and rng.random() < 0.3:
        parts += ["-- ", "2.39.2"]
    return ("\n".join(parts) + "\n").encode()


def page(rng: random.Random) -> bytes:
    parts = [
        "<!DOCTYPE html><html><head><title>A page</title><script>var x = '<a href=q><h1>no</h1>';</script></head><body>"
    ]
    for n in range(rng.randrange(3, 150)):
        parts.append(
            rng.choice(
                [
                    f"<h{rng.randrange(1, 7)} class='x'>{_say(rng)} <b>{n}</b></h{1}>".replace("</h1>", ""),
                    f"<p>{_say(rng)} <a href='/{n}'>x</a></p>",
                    "<ul><li>a<li>b</ul>",
                    "<!-- <a href=z> -->",
                    "<IMG src=x>",
                    "<table><tr><td>1</td></tr></table>",
                ]
            )
        )
        opened = re.search(r"<h(\d)", parts[-1])
        parts[-1] += f"</h{opened[1]}>" if opened else ""
    return ("\n".join(parts) + "</body></html>").encode()


def markdown(rng: random.Random) -> bytes:
    parts, is_nested = ["# Title\n"], rng.random() < 0.5
    for n in range(rng.randrange(4, 120)):
        parts.append(
            rng.choice(
                [
                    f"{'#' * rng.randrange(1, 7)} {rng.choice(_WORDS)} {n}\n",
                    f"{_say(rng)} [x](https://x.org/{n}).\n",
                    "```sh\n# not a heading\n[no](x)\n```\n",
                    "- one\n- two\n",
                    "| a | b |\n|---|---|\n| 1 | 2 |\n",
                    f"{_say(rng)} `[a](b)`\n",
                    "<!-- x -->\n\n    # code\n",
                    "~~~\n# no\n~~~\n",
                    *(["- one\n\n      ```sh\n      # no\n      ```\n", "> ```\n> # no\n> ```\n"] if is_nested else []),
                ]
            )
        )
    return "\n".join(parts).encode()


def xml(rng: random.Random) -> bytes:
    rows = "".join(
        rng.choice(
            [
                f'<bug type="T{n % 3}" line="{n}"/>',
                f"<note>{_say(rng)}</note>",
                "<!-- <bug/> -->",
                "<a><name>x</name></a>",
                "<b><name>y</name></b>",
                "<![CDATA[<bug/>]]>",
            ]
        )
        for n in range(rng.randrange(2, 400))
    )
    return f'<?xml version="1.0"?>\n<bugs>\n{rows}\n</bugs>\n'.encode()


def pytest_report(rng: random.Random) -> bytes:
    tests = [f"tests/test_{rng.choice(_WORDS)}.py::test_{n}" for n in range(rng.randrange(2, 300))]
    failed = rng.sample(tests, rng.randrange(0, min(9, len(tests))))
    lines = ["=" * 20 + " test session starts " + "=" * 20, f"collected {len(tests)} items", ""]
    lines += [f"{name} {'FAILED' if name in failed else 'PASSED'}" for name in tests]
    if failed:
        lines.append("=" * 30 + " FAILURES " + "=" * 30)
        for name in failed:
            lines += [
                "_" * 30 + f" {name.split('::')[1]} " + "_" * 30,
                "",
                "    def test():",
                ">       assert 0",
                "E       assert 0",
                "",
                f"{name.split('::')[0]}:5: AssertionError",
            ]
        lines.append("=" * 20 + " short test summary info " + "=" * 20)
        lines += [f"FAILED {name} - assert 0" for name in failed]
    lines.append(
        f"{'=' * 10} {f'{len(failed)} failed, ' if failed else ''}{len(tests) - len(failed)} passed in 1.23s {'=' * 10}"
    )
    return ("\n".join(lines) + "\n").encode()


def wrapped(rng: random.Random) -> bytes:
    """The report of pytest as a container, a server that runs builds, or a terminal writes it."""
    lines = pytest_report(rng).decode().split("\n")[:-1]
    wraps: list[Callable[[int, str], str]] = [
        lambda n, line: f"2026-01-01T00:{n // 60 % 60:02}:{n % 60:02}.1234567Z {line}",
        lambda _, line: f"web_1  | {line}",
        lambda _, line: f"py312: {line}",
        lambda _, line: re.sub(r"FAILED|failed|PASSED", lambda found: f"\x1b[31m{found[0]}\x1b[0m", line),
    ]
    wrap = rng.choice(wraps)
    return "".join(wrap(n, line) + "\n" for n, line in enumerate(lines)).encode()


def maven(rng: random.Random) -> bytes:
    lines = ["[INFO] Scanning for projects..."]
    lines += [
        rng.choice(["[INFO] Compiling", "[WARNING] deprecated: x", "[INFO] Tests run: 3, Failures: 0, Errors: 0"])
        for _ in range(rng.randrange(5, 200))
    ]
    failed = rng.random() < 0.5
    lines += (
        ["[ERROR] com.a.FooTest.bar:12 expected 1", "[ERROR] Tests run: 9, Failures: 1, Errors: 0, Skipped: 0"]
        if failed
        else ["[INFO] Tests run: 9, Failures: 0, Errors: 0, Skipped: 0"]
    )
    lines += ["[INFO] core ......................... FAILURE [  1.2 s]"] if failed else []
    lines += ["[INFO] ---", f"[INFO] BUILD {'FAILURE' if failed else 'SUCCESS'}", "[INFO] Total time:  1.2 s"]
    lines += ["[ERROR] Failed to execute goal a:b:test (default) on project core"] if failed else []
    if rng.random() < 0.5:
        lines = [
            "Started by user ann",
            "Running on node 1",
            *lines,
            "Recording test results",
            f"Finished: {rng.choice(['UNSTABLE', 'FAILURE', 'ABORTED'])}",
        ]
    return ("\n".join(lines) + "\n").encode()


def gradle(rng: random.Random) -> bytes:
    failed = rng.random() < 0.5
    lines = [
        f"> Task :m{n}:{rng.choice(['compileJava', 'test', 'jar'])}" + rng.choice(["", " UP-TO-DATE"])
        for n in range(rng.randrange(2, 80))
    ]
    lines += ["src/A.java:3: warning: [deprecation] x"] * rng.randrange(4)
    lines += (
        [
            "> Task :app:test FAILED",
            "",
            "FooTest > bar FAILED",
            "",
            "9 tests completed, 1 failed",
            "",
            "BUILD FAILED in 3s",
        ]
        if failed
        else ["", "BUILD SUCCESSFUL in 3s"]
    )
    return ("\n".join([*lines, "7 actionable tasks: 7 executed"]) + "\n").encode()


_GIT_DATES = ("%a %b %-d %H:%M:%S %Y %z", "%Y-%m-%d %H:%M:%S %z", "iso", "%a, %-d %b %Y %H:%M:%S %z")


def history(rng: random.Random) -> bytes:
    """Of git, with dates that are not in order and zones that differ."""
    parts: list[str] = []
    form, dated = rng.choice(_GIT_DATES), rng.choice(["Date", "AuthorDate"])
    for n in range(rng.randrange(3, 200)):
        zone = rng.choice([timedelta(0), timedelta(hours=2), -timedelta(hours=7, minutes=30)])
        at = datetime(
            rng.randrange(2019, 2027), rng.randrange(1, 13), rng.randrange(1, 29), rng.randrange(24), n % 60, 7,
            tzinfo=timezone(zone),
        )  # fmt: skip
        merge = "Merge: 1234567 89abcde\n" if rng.random() < 0.1 else ""
        parts.append(
            f"commit {rng.getrandbits(160):040x}{rng.choice(['', ' (tag: v1)'])}\n{merge}Author: {rng.choice(['Ann Lee', 'Bob', 'Ćiril'])} <a@b.c>\n"
            f"{dated}:   {at.isoformat() if form == 'iso' else at.strftime(form)}\n"
            + (f"\n    {_say(rng)}\n\n    Date: none\n" if n % 7 else "")
        )
    return "\n".join(parts).encode()


def one_line_history(rng: random.Random) -> bytes:
    """Of `git log --oneline`, with a graph or without."""
    is_drawn = rng.random() < 0.5

    def line(n: int) -> str:
        if is_drawn and n and rng.random() < 0.1:
            return rng.choice(["|\\  ", "|/  ", "| | "])
        refs = rng.choice(["", "", "", "(tag: v1) ", "(HEAD -> main, origin/main) "])
        return f"{rng.choice(['* ', '| * ']) if is_drawn else ''}{rng.getrandbits(32):08x}a {refs}{_say(rng)}"

    return _lines(rng, line, 8)


def objects(rng: random.Random) -> bytes:
    """Lines that begin as those of `git log --oneline` do, and are none: bytes of a file, objects, references."""
    form = rng.choice(["{at:07x} {bytes}", "{id:040x} {kind} {n}", "{id:040x} refs/tags/v{n}", "{at:08x} T symbol_{n}", "{id:09x} HEAD@{{{n}}}: commit: {say}"])  # fmt: skip
    return _lines(
        rng,
        lambda n: form.format(
            at=16 * n,
            bytes=" ".join(f"{rng.getrandbits(16):04x}" for _ in range(8)),
            id=rng.getrandbits(36),
            kind=rng.choice(["blob", "tree", "commit"]),
            n=n,
            say=_say(rng),
        ),
        60,
    )


def graph(rng: random.Random) -> bytes:
    """A history with its graph at the left."""
    lines = history(rng).decode().split("\n")
    return "\n".join(("* " if line.startswith("commit ") else "| ") + line for line in lines).encode()


def made(rng: random.Random) -> bytes:
    """Of a build without errors."""
    lines = [
        rng.choice(
            [
                f"cc -O2 -c {rng.choice(_WORDS)}{n}.c -o {n}.o",
                f"a{n}.c:{n}:5: warning: unused 'x'",
                f"ar rcs lib{n}.a {n}.o",
            ]
        )
        for n in range(rng.randrange(20, 400))
    ]
    return "\n".join(
        ["make[1]: Entering directory '/src/a'", *lines, "make[1]: Leaving directory '/src/a'", ""]
    ).encode()


def tap(rng: random.Random) -> bytes:
    """Of several files, with tests that may fail and subtests."""
    lines = ["TAP version 13"] if rng.random() < 0.5 else []
    for _ in range(rng.randrange(1, 4)):
        tests = rng.randrange(5, 80)
        lines.append(f"1..{tests}")
        for n in range(1, tests + 1):
            failed = rng.random() < 0.2
            lines += [f"    not ok 1 - {_say(rng)}", "    1..1"] if failed and rng.random() < 0.3 else []
            note = rng.choice([" # TODO later", " # todo", ""]) if failed else rng.choice([" # SKIP", "", "", ""])
            lines.append(f"{'not ' if failed else ''}ok {n} - {rng.choice(_WORDS)}{note}")
    return "\n".join([*lines, "not ok 99 - the last", ""]).encode()


def sources(rng: random.Random) -> bytes:
    """Lines of sources that speak of stack traces, and have none."""
    sign = "Traceback (most recent call last):"
    return _lines(
        rng,
        lambda n: rng.choice(
            [
                f"    >>> {rng.choice(_WORDS)}({n})\n    {sign}\n      ...\n    {rng.choice(['Key', 'Value'])}Error: {n}\n",
                f'src/{rng.choice(_WORDS)}.py:{n}: sign = b"{sign}"',
                f"src/{rng.choice(_WORDS)}.py:{n}:    {sign}",
                f"def {rng.choice(_WORDS)}{n}(self): ...",
            ]
        ),
        60,
    )


def build(rng: random.Random) -> bytes:
    return _lines(
        rng,
        lambda n: rng.choice(
            [
                f"cc -c {rng.choice(_WORDS)}{n}.c",
                f"a{n}.c:{n}:5: warning: unused 'x'",
                f"b{n}.c:{n}:1: error: expected ';'",
                f"b{n}.c:{n}:1: error: expected ';'\nmake[1]: *** [Makefile:{n}: b{n}.o] Error 1\nmake: *** [all] Error 2",
                "ok",
            ]
        ),
        20,
    )


def records(rng: random.Random) -> bytes:
    rows = [
        {
            "id": n,
            "name": _say(rng),
            "state": rng.choice(["open", "paid", "void"]),
            "tags": ["a"] * rng.randrange(4),
            **({"note": None} if n % 3 else {}),
        }
        for n in range(rng.randrange(2, 300))
    ]
    return json.dumps(
        rng.choice([rows, {"page": 1, "items": rows, "next": None}, {f"k{row['id']}": row for row in rows}]),
        indent=rng.choice([None, 2]),
    ).encode()


def ndjson(rng: random.Random) -> bytes:
    broken = rng.choice([0, 0.05])
    return _lines(
        rng,
        lambda n: (
            rng.choice(["", "Done", "{oops}"])
            if n > 30 and rng.random() < broken
            else json.dumps({"at": n, "level": rng.choice(["info", "error"]), "ms": rng.random()})
        ),
    )


def _member(rng: random.Random, depth: int) -> object:
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind > 5:
        return {rng.choice(_WORDS): _member(rng, depth + 1) for _ in range(rng.randrange(1, 4))}
    if kind > 4:
        return [_member(rng, depth + 1) for _ in range(rng.randrange(1, 5))]
    return rng.choice(
        [rng.randrange(1000), rng.random() < 0.5, None, _say(rng), f"{_say(rng)}: it's #{rng.randrange(9)}"]
    )


def yaml(rng: random.Random) -> bytes:
    """One document or several, as a program writes them."""
    documents = [
        {"kind": rng.choice(_WORDS), "spec": {name: _member(rng, 0) for name in rng.sample(_WORDS, 6)}, "items": [
            {"id": n, "state": rng.choice(_VERBS), "tags": rng.sample(_WORDS, 2)} for n in range(rng.randrange(2, 60))
        ]}
        for _ in range(rng.choice([1, 1, 4]))
    ]  # fmt: skip
    return str(_YAML.safe_dump_all(documents, sort_keys=False, width=rng.choice([80, 1000]))).encode()


def toml(rng: random.Random) -> bytes:
    def value() -> str:
        return rng.choice([str(rng.randrange(999)), "true", f'"{_say(rng)} # {rng.randrange(9)}"', "[1, 2, 3]", '{ a = 1, b = "c" }', '[\n  "x", # one\n  "y",\n]'])  # fmt: skip

    text = f'title = "{_say(rng)}"\n' + "".join(f"{name} = {value()}\n" for name in rng.sample(_WORDS, 3))
    for name in rng.sample(_VERBS, 4):
        text += f"\n[{name}]\n" + "".join(f"{key} = {value()}\n" for key in rng.sample(_WORDS, rng.randrange(1, 5)))
    for n in range(rng.randrange(1, 80)):
        text += f'\n[[package]]\nname = "p{n}"\nstate = "{rng.choice(_VERBS)}"\ndeps = {value()}\n'
    return text.encode()


def metrics(rng: random.Random) -> bytes:
    lines: list[str] = []
    for name in rng.sample(_WORDS, rng.randrange(2, 12)):
        kind = rng.choice(["counter", "gauge", "histogram", "summary", ""])
        lines += [f"# HELP {name}_x What it is.", f"# TYPE {name}_x {kind}"] if kind else []
        for n in range(rng.randrange(1, 40)):
            labels = f'state="{rng.choice(_VERBS)}",n="{n}"'
            ends = [f'_bucket{{{labels},le="1"}}', f"_sum{{{labels}}}", f"_count{{{labels}}}"]
            for end in ends if kind in ("histogram", "summary") else [rng.choice([f"{{{labels}}}", ""])]:
                lines.append(f"{name}_x{end} {rng.choice(['1', '2.5e-3', '+Inf', 'NaN', '7 1700000000000'])}")
    return "\n".join(["# HELP up Whether it runs.", "# TYPE up gauge", "up 1", *lines, "end_total 2"]).encode()


def sql(rng: random.Random) -> bytes:
    parts = ["-- a dump", "BEGIN TRANSACTION;"]
    for bare in rng.sample(_WORDS, rng.randrange(1, 9)):
        name = rng.choice([bare, bare, f'"{bare} of all"', f"'{bare}_data'"])
        parts.append(
            f'CREATE {rng.choice(["", "", "UNLOGGED "])}TABLE {rng.choice(["", "IF NOT EXISTS "])}public.{name} (\n  id integer NOT NULL,\n  "its name" varchar(40),\n  PRIMARY KEY (id)\n);'
        )
        rows = range(rng.randrange(0, 90))
        if rng.random() < 0.5:
            parts += [f"INSERT INTO public.{name} VALUES({n}, '{_say(rng)}; it''s ({n})');" for n in rows]
        else:
            parts += [f'COPY public.{name} (id, "its name") FROM stdin;', *(f"{n}\t{_say(rng)}" for n in rows), "\\."]
    return ("\n".join([*parts, "COMMIT;"]) + "\n").encode()


def script(rng: random.Random) -> bytes:
    body = ";".join(
        rng.choice(["function {0}(a,b){{return a.{1}(b)}}", "var {0}=(e)=>e.{1}.map(t=>t.id)", 'fetch("https://{0}.org/{1}")'])
        .format(rng.choice(_WORDS), rng.choice(_VERBS)) for _ in range(rng.randrange(60, 400))
    )  # fmt: skip
    return f"/*! {_say(rng)} | MIT */\n!function(){{{body}}}();\n//# sourceMappingURL=x.min.js.map\n".encode()


def table(dice: random.Random) -> bytes:
    """Separated columns of every type, with odd values, cells over two lines, and rows of other lengths."""
    sign, rows = dice.choice(",\t;|"), dice.choice([12, 300, 12_000])
    names = ["id", "first name", "day", "code", "ms", "ok", "note", "select"]
    is_ragged, is_quoted = dice.random() < 0.3, dice.random() < 0.5
    lines = [sign.join(names)]
    for n in range(rows):
        cells = [
            str(n), dice.choice(["ann", "bob", "cem d"]), f"2026-{n % 12 + 1:02}-{n % 28 + 1:02}", f"{n:05}",
            "n/a" if n % 40 == 7 else f"{dice.random() * 100:.2f}", dice.choice(["true", "false", ""]),
            f'"x {n}\ny"' if is_quoted and n % 5 == 0 else f"x {n % 7}", "7",
        ]  # fmt: skip
        lines.append(sign.join(cells[: dice.randint(3, 8)] if is_ragged and n % 50 == 9 else cells))
    return "\n".join([*lines, ""]).encode()


def no_header(dice: random.Random) -> bytes:
    """Rows of text with tabs, the first of them as the others."""
    form = dice.choice(
        [":100644 100755 {id:08x} {v}\t{w}/{w}.py {id:x}", "{n}) {w}\t {id}) {v}", "{w} {id:x}:\t{v} {id:x} {w}"]
    )
    return _lines(
        dice,
        lambda n: form.format(id=dice.getrandbits(32), n=n, w=f"{dice.choice(_WORDS)}", v=f"{dice.choice(_VERBS)}"),
        50,
    )


def open_quote(dice: random.Random) -> bytes:
    """A quote that is never closed: in the middle of the rows, or in a cell that was cut."""
    lines = [f"{n},{_say(dice)},{_say(dice)}" for n in range(dice.choice([40, 3_000, 50_000]))]
    at = dice.randrange(20, len(lines))
    lines[at] = f'{at},"{_say(dice)},{_say(dice)}'
    if dice.random() < 0.5:
        lines[at] = f'{at},{_say(dice)},"{_say(dice)}'
        lines[at + 1 :] = [_say(dice).replace(",", "") for _ in range(9)]
    return "\n".join(["id,what,note", *lines, ""]).encode()


def aligned(dice: random.Random) -> bytes:
    rows = [["NAME", "READY", "RESTARTS", "AGE"]]
    for n in range(dice.choice([3, 40, 900])):
        rows.append([f"web-{n}", dice.choice(["1/1", "0/1"]), str(dice.randint(0, 9)), f"{n}d"])
    widths = [max(map(len, column)) + 3 for column in zip(*rows, strict=True)]
    return "".join(
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in rows
    ).encode()


MADE: dict[str, Make] = {
    "table": table, "aligned": aligned, "open quote": open_quote, "no header": no_header,
    "log": log, "mixed log": mixed_log, "angles": angles, "zones": zones, "hours": hours, "syslog": syslog, "access log": access_log, "traces": traces, "addresses": addresses, "prose": prose,
    "shapes": shapes, "diff": diff, "page": page, "markdown": markdown, "xml": xml, "pytest": pytest_report,
    "wrapped": wrapped, "history": history, "one line": one_line_history, "objects": objects, "graph": graph, "made": made, "maven": maven, "gradle": gradle, "build": build, "tap": tap, "sources": sources, "records": records,
    "ndjson": ndjson, "yaml": yaml, "toml": toml, "metrics": metrics, "sql": sql, "script": script,
}  # fmt: skip


def large() -> dict[str, bytes]:
    """Over 8 MB, of which only a part is looked at. The end is not as the beginning."""
    words = b" and so on" * 20
    log_line = b"2026-01-%02d 00:%02d:%02d INFO worker-%d job %d done in %d ms" + words + b"\n"
    lines = [log_line % (n % 3 + 10, n // 60 % 60, n % 60, n % 9, n, n % 997) for n in range(33_000)]
    lines[16_511] = b"2025-12-31 00:00:00 ERROR worker-1 the only one\n"
    part = (
        b"diff --git a/f%d b/f%d\n--- a/f%d\n+++ b/f%d\n@@ -1,2 +1,3 @@\n same\n-old\n+new\n+more" + 4 * words + b"\n"
    )
    hits = b"[" + b",".join(b"%d" % n for n in range(450_000)) + b"]"
    groups = (b'{"k":%d,"hits":%b}' % (n, b"[1,2,3]" if n % 2 else hits) for n in range(6))
    return {
        "nested": b'{"groups":[' + b",".join(groups) + b"]}",
        "table": b"id,day,name\n"
        + b"".join(b'%d,2026-01-%02d,"n %d%b"\n' % (n, n % 28 + 1, n % 9, words) for n in range(40_000)),
        "log": b"".join(lines),
        "diff": b"".join(part % (n, n, n, n) for n in range(10_500)),
        "prose": b"".join(b"Word %x of a text.%b\n\nAnd %x.\n" % (n * n, words, n) for n in range(36_000)),
    }


def real() -> dict[str, Path]:
    found = {path.name: path for path in sorted(_ARTIFACTS.iterdir())} if _ARTIFACTS.is_dir() else {}
    return found | {str(path.relative_to(ROOT)): path for path in sorted(ROOT.glob("*.md"))}


def of_tools() -> dict[str, bytes]:
    """What tools on the machine say of this repository; where there is no history there is nothing to say."""
    commands = {
        "git log": "git log -n 40", "git log -p": "git log -p -n 6", "git show --stat": "git show --stat", "git diff": "git diff HEAD~3 HEAD",
        "git format-patch": "git format-patch -3 --stdout",
    }  # fmt: skip
    done = {
        name: subprocess.run(command.split(), cwd=ROOT, capture_output=True, check=False)
        for name, command in commands.items()
    }
    return {name: each.stdout for name, each in done.items() if each.returncode == 0 and each.stdout}
