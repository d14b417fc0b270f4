"""A tool whose policy says `redact`: no secret of what it gives reaches a model or the disk, by whatever way it comes."""

import asyncio
import base64
import contextlib
import datetime
import enum
import gzip
import io
import json
import random
import sqlite3
import subprocess
import sys
import threading
import zipfile
from collections import UserList, deque
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, cast
from urllib.parse import quote, unquote

import pytest

from holdall import Kept, MissingExtra, Running, ToolPolicy, UsageError
from holdall.bag import redaction as redaction_module
from holdall.bag.bundles import export_session
from holdall.bag.redaction import LookTime, Redaction
from holdall.bag.run import Writer
from holdall.store.bundle import redact
from holdall.store.bundle.rules import Rules
from holdall.text.secrets import Masker
from holdall.values.errors import LookedTooLong
from holdall.values.outputs import LargeJson, RawResult
from tests.bag.shapes import opened
from tests.bag.test_traces import traces
from tests.requirements import requirement

SECRET = "correct-horse-7!"
LINE = f"DB_PASSWORD={SECRET}"
SMALL = f"first {SECRET} alone\n{LINE}\n"
LONG = f"{LINE}\n{'x' * 100}\n"
LARGE = f"first {SECRET} alone\n{LINE}\n" + "an ordinary line of a log\n" * 11_000
SETTINGS = {"tools": {"env": ToolPolicy(redact=True)}}

pytestmark = [pytest.mark.anyio, requirement("store:tool-redacts")]


def zipped(data: bytes) -> bytes:
    with zipfile.ZipFile(written := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.log", data)
    return written.getvalue()


def block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def blob(text: str) -> dict[str, Any]:
    data = base64.b64encode(text.encode()).decode()
    return {"type": "resource", "resource": {"uri": "file:///x", "mimeType": "text/plain", "blob": data}}


def blob_in_lines(text: str) -> dict[str, Any]:
    found = blob(text)
    found["resource"]["blob"] = base64.encodebytes(text.encode()).decode()
    return found


class Odd:
    """What JSON cannot say is told as Python tells it."""

    def __repr__(self) -> str:
        return f"<connected with {LINE}>"


RESULTS: dict[str, object] = {
    "a small text": SMALL,
    "a large text": LARGE,
    "small bytes": SMALL.encode(),
    "large bytes": LARGE.encode(),
    "a value": {"user": "app", "password": SECRET, "also": [SECRET], SECRET: 1},
    "a large value": {"password": SECRET, "rows": [SECRET, *("x" * 100 for _ in range(5000))]},
    "a result of MCP": {"content": [block(SMALL)], "structuredContent": {"password": SECRET}, "isError": False},
    "a large result": {"content": [block(LARGE), block(SECRET)], "isError": True},
    "a set": {LINE, "x"},
    "an object": Odd(),
    "JSON with escapes": json.dumps({"text": LINE}).replace("correct", "\\u0063orrect"),
    "a resource": {"content": [blob(SMALL)]},
    "base64 in lines": {"content": [blob_in_lines(LONG)]},
    "a data URL": {
        "type": "image_url",
        "image_url": {"url": f"data:text/plain;base64,{base64.b64encode(LINE.encode()).decode()}"},
    },
    "a data URL in lines": {
        "content": [
            {
                "type": "resource",
                "resource": {"uri": "DATA:text/plain;base64," + base64.encodebytes(LONG.encode()).decode()},
            }
        ]
    },
    "a data URL with escapes": {"url": "data:text/plain," + quote(LINE, safe="")},
    "a command": {"command": ["psql", "--password", SECRET, "-c", "select 1"]},
    "names beside values": [{"name": "DB_PASSWORD", "value": SECRET}, ["password", SECRET]],
    "below the name": {"password": {"current": {"value": SECRET}, "old": [{"value": SECRET}]}},
    "a large resource": {"content": [blob(LARGE * 3), block(SECRET)]},
    "one text under a name": {"content": [block("hello")], "structuredContent": {"password": SECRET}, "isError": False},
    "one text alone": {"content": [], "structuredContent": {"password": SECRET}, "isError": False},
    "a name": {"content": [block("hello")], "structuredContent": {LINE: "x"}, "isError": False},
    "for its client": {"content": [block("hello")], "_meta": {"password": SECRET}, "isError": False},
    "a type": {"content": [block("hello"), {"type": "image", "data": "aGk=", "mimeType": f"image/png;{LINE}"}]},
}


def anywhere(home: Path) -> bool:
    """Whether the secret is in any file, as it is or as base64."""
    packed = base64.b64encode(LINE.encode())[4:-4]
    found = [one.read_bytes() for one in home.rglob("*") if one.is_file()]
    return any(SECRET.encode() in data or packed in data.replace(b"\\n", b"") for data in found)


def told(content: object) -> str:
    return json.dumps(content, default=repr, ensure_ascii=False)


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("what", RESULTS)
async def test_what_a_tool_returns(tmp_path: Path, what: str) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        taken = await bag.take(RESULTS[what], tool="env", arguments={"token": SECRET, "note": f"--password {SECRET}"})
        shown = told(taken.content)
        assert SECRET not in shown
        assert SECRET[3:] not in shown
        assert SECRET[3:-1] not in unquote(shown)
        assert base64.b64encode(LINE.encode()).decode()[4:-4] not in shown.replace("\\n", "")
    assert not anywhere(tmp_path)
    if "text" in what or "result" in what:
        assert "masked with * by the policy of its tool" in shown


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("what", RESULTS)
async def test_what_a_tool_returns_in_the_background(tmp_path: Path, what: str) -> None:
    """As when it comes at once: as a whole, and before anything of it is kept by itself."""

    go_on = asyncio.Event()

    async def call() -> object:
        await go_on.wait()
        return RESULTS[what]

    async with opened(tmp_path, **SETTINGS) as bag:
        running = await bag.run(call, tool="env", background=True)
        assert isinstance(running, Running)
        go_on.set()
        shown = told((await bag.call("wait_for_tool_output", {"handle": running.handle})).text)
        for facts in await bag.outputs():
            shown += await bag.fetch.original_text(facts.handle)
        assert SECRET not in shown
        assert SECRET[3:-1] not in unquote(shown)
    assert not anywhere(tmp_path)


async def test_the_text_of_a_value_that_fits_says_that_it_is_masked(tmp_path: Path) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        taken = await bag.take({"password": SECRET}, tool="env")
        mask = "*" * len(SECRET)
        assert taken.content == {"password": mask}
        assert taken.text == f'{{"password": "{mask}"}}\n[1 secret is masked with * by the policy of its tool]'


@pytest.mark.parametrize("pack", [gzip.compress, zipped], ids=["gzip", "zip"])
async def test_what_is_packed_stays_closed(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    lines = random.Random(7).sample(range(10**9), 20_000)
    data = pack(LARGE.encode() + "".join(f"{one}\n" for one in lines).encode())
    async with opened(tmp_path, **SETTINGS) as bag:
        for taken in (
            await bag.take(data, tool="env"),
            await bag.take(iter([data[:90_000], data[90_000:]]), tool="env"),
        ):
            assert isinstance(taken, Kept)
            assert SECRET not in str(taken.content)
            assert taken.artifact.measure.kind == "binary"
            calls = {"context_read": {}, "context_grep": {"pattern": "horse"}, "context_query": {"sql": "from t"}}
            for name, given in calls.items():
                for member in ("!", "!a.log"):
                    answer = await bag.call(name, {"handle": taken.handle + member, **given})
                    assert "not opened: secrets of its tool are masked" in answer.text
        with pytest.raises(UsageError, match=f"cannot be masked: .*{taken.handle}"):
            await export_session(bag.session.name, io.BytesIO(), home=str(bag.store.home), redact=True)
        other = await bag.take(data, tool="another")
        assert isinstance(other, Kept)
        assert other.artifact.measure.kind in ("gzip", "zip")


async def test_it_is_said_and_nothing_moves(tmp_path: Path) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        taken = await bag.take(LARGE, tool="env")
        assert "Kept whole, but 2 secrets are masked with * by the policy of its tool." in str(taken.content)
        small = await bag.take(SMALL, tool="env")
        assert str(small.content).endswith("\n[2 secrets are masked with * by the policy of its tool]")
        facts = await bag.keep(LARGE, tool="env")
        assert facts.measure.bytes == len(LARGE)
        assert facts.measure.notes == ("2 secrets are masked with * by the policy of its tool",)
        other = await bag.take(SMALL, tool="another")
        assert other.content == SMALL  # only where the policy says so
        assert (await bag.take("nothing to hide", tool="env")).content == "nothing to hide"


async def test_what_a_tool_raises(tmp_path: Path) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:

        def fails() -> str:
            raise ValueError(f"cannot connect to postgres://app:{SECRET}@db/x")

        taken = await bag.run(fails, tool="env")
        assert SECRET not in told(taken.content)
        assert SECRET not in repr(taken)
    assert not anywhere(tmp_path)


def pieces() -> Iterator[str]:
    """The secret is cut in two at every place."""
    for at in range(1, len(SECRET)):
        yield f"DB_PASSWORD={SECRET[:at]}"
        yield f"{SECRET[at:]}\nand {SECRET} once more\n"
        yield "an ordinary line of a log\n" * 1000


async def later() -> AsyncIterator[str]:
    for piece in pieces():
        yield piece


@pytest.mark.in_full(one_in=2)
@pytest.mark.parametrize("make", [pieces, later])
async def test_a_stream(tmp_path: Path, make: Any) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        taken = await bag.take(make(), tool="env")
        assert SECRET not in told(taken.content)
        facts = await bag.keep(make(), tool="env")
        assert facts.measure.bytes == sum(map(len, pieces()))
    assert not anywhere(tmp_path)


async def test_a_slow_call_and_what_it_writes_and_says_on_the_way(tmp_path: Path) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        messages = bag.jobs.messages("env")

        async def slow(writer: Any) -> str:
            for piece in pieces():
                writer.write(piece)
            messages.add(f"connecting with --password {SECRET}")
            await go_on.wait()
            return SMALL

        go_on = asyncio.Event()
        running = await bag.run(slow, tool="env", messages=messages, background=True)
        assert isinstance(running, Running)
        assert messages.data == b"connecting with --password " + b"*" * len(SECRET) + b"\n"
        go_on.set()
        await bag.wait(running.handle)
        text = await bag.fetch.original_text(running.handle)
        assert SECRET not in text
        assert text.startswith("DB_PASSWORD=" + "*" * len(SECRET))
        begun = await bag.jobs.begin(tool="env", arguments={"command": ["psql", f"--password={SECRET}"]})
        begun.write(LINE.encode())
        begun.finish(error=f"password={SECRET} was wrong")
    assert not anywhere(tmp_path)


IMAGE = {"type": "image", "data": base64.b64encode(b"x" * 400_000).decode()}
BESIDE: dict[str, object] = {
    **RESULTS,
    "few fields": {"content": [block("x")], "_meta": {"password": SECRET}},
    "many fields": {"content": [block("x")], "_meta": {"password": SECRET, "more": "y" * 100}},
    "details": {"content": [block("x")], "details": {LINE: 1}},
    "members of a result of MCP": RawResult({"content": [block("x")]}, b"", {"verdict": {"password": SECRET}}),
    "members beside a secret": RawResult({"content": [block(LINE)]}, b"", {"verdict": {"password": SECRET}}),
    "the name of structured content": {"content": [block("x")], "structuredContent": {LINE: "y"}},
    "the same alone": {"content": [], "structuredContent": {LINE: "y" * 90_000}},
    "a media type": {"content": [{**IMAGE, "mimeType": f"image/{LINE}"}]},
    "what is no base64": {"content": [{**IMAGE, "data": "!!", "mimeType": f"image/{LINE}"}]},
    "fields of a block": {"content": [{**block("x"), "annotations": {"password": SECRET}}]},
    "the name of a type": {"x": [type(LINE, (), {"__slots__": ()})()]},
}


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("result", BESIDE.values(), ids=BESIDE)
async def test_whatever_a_slow_call_returns_beside_its_text(tmp_path: Path, result: object) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        go_on = asyncio.Event()

        async def slow() -> object:
            await go_on.wait()
            return result

        running = await bag.run(slow, tool="env", background=True)
        assert isinstance(running, Running)
        go_on.set()
        (ended,) = (await bag.wait(running.handle)).ended
        assert SECRET not in str(ended)
        assert "masked with * by the policy of its tool" in str(ended.measure.notes)
        assert SECRET not in (await bag.call("context_read", {"handle": running.handle})).text
        if isinstance(result, RawResult):
            assert "verdict" in str(ended.measure.notes)
    assert not anywhere(tmp_path)


@requirement("async:crash-interrupted")
async def test_what_is_written_can_be_read_at_once_and_stays_when_its_process_is_killed(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom holdall import Holdall, Settings, ToolPolicy\n"
        f"async def call(writer):\n    writer.write('{LINE}\\nstep 1\\nhalf a li')\n    await asyncio.Event().wait()\n"
        "async def main():\n"
        "    settings = Settings(tools={'env': ToolPolicy(redact=True)})\n"
        "    bag = Holdall.open(home=sys.argv[1], session='s1', settings=settings)\n"
        "    running = await bag.run(call, tool='env', background=True)\n"
        "    await bag.wait(running.handle, pattern='step 1')\n"
        "    print(running.handle, flush=True)\n    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "home"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    handle = (await process.stdout.readline()).decode().strip()
    process.kill()
    await process.wait()
    async with opened(tmp_path) as bag:
        assert (await bag.read(handle)).text == f"DB_PASSWORD={'*' * len(SECRET)}\nstep 1\n"
        assert (await bag.show(handle)).state == "interrupted"
    assert not anywhere(tmp_path)


async def test_what_cannot_be_masked_while_it_is_written_is_told_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction_module, "_LIVE_SECONDS", 0.0)
    failed = threading.Event()

    def fail(self: Masker) -> bytes:
        failed.set()
        raise LookedTooLong(60.0)

    monkeypatch.setattr(Masker, "lines", fail)
    async with opened(tmp_path, **SETTINGS) as bag:

        def slow(writer: Writer) -> None:
            writer.write("a line\n")
            failed.wait()

        running = await bag.run(slow, tool="env", background=True)
        assert isinstance(running, Running)
        (ended,) = (await bag.wait(running.handle)).ended
        assert ended.state == "interrupted"
        assert "not all of it is kept" in ended.error


async def test_updates_and_messages_that_are_cut_inside_of_a_secret(tmp_path: Path) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        messages = bag.jobs.messages("env")
        key = "sk-proj-" + "k3Y7" * 20
        messages.add("x" * 486 + f" {key}")  # its first 13 characters alone look like nothing
        assert messages.data == b"x" * 486 + b" " + b"*" * 12 + "…\n".encode()
        assert await bag.jobs.update({"content": [block(LINE)]}, tool="env") == {
            "content": [block("DB_PASSWORD=" + "*" * len(SECRET))]
        }


NESTED = "".join("password=" + "\\" * k + "'" for k in range(120))  # each value reaches to its closing quote, far away


@pytest.mark.parametrize(
    "flood", ["\n".join(f"password=flooded{n:05}" for n in range(900)), NESTED], ids=["many", "nested"]
)
async def test_more_secrets_than_can_be_remembered_are_masked_where_they_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flood: str
) -> None:
    monkeypatch.setattr(redact, "_MOST_BYTES", 20_000)
    everywhere = "masked with * by the policy of its tool"
    async with opened(tmp_path, **SETTINGS) as bag:
        await bag.take(LINE, tool="env")
        taken = await bag.take(flood, tool="env")
        assert "flooded" not in told(taken.content)
        assert f"{everywhere}; too many to mask all of them everywhere" in told(taken.content)
        later = await bag.take(f"DB_PASSWORD=another-pass-8! and {SECRET}", tool="env")
        assert "another-pass" not in told(later.content)
        assert SECRET not in told(later.content)  # what was remembered before stays so

        go_on = asyncio.Event()

        async def slow() -> str:
            await go_on.wait()
            return f"{LINE}\nDB_PASSWORD=a-third-pass-9!"

        running = await bag.run(slow, tool="env", background=True)
        assert isinstance(running, Running)
        go_on.set()
        (ended,) = (await bag.wait(running.handle)).ended
        assert ended.state == "ready"
        assert ended.measure.notes == (f"2 secrets are {everywhere}; too many to mask all of them everywhere",)
    assert not anywhere(tmp_path)


async def test_a_new_secret_costs_no_more_than_its_share_of_those_that_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled, literal = [0], Rules.literal

    def counted(values: Any) -> Any:
        values = list(values)
        compiled[0] += len(values)
        return literal(values)

    monkeypatch.setattr(Rules, "literal", staticmethod(counted))
    redaction = Redaction()
    for n in range(500):
        assert redaction.text(f"password=Geheim-{n:05} and Geheim-00000") == f"password={'*' * 12} and {'*' * 12}"
    assert (
        redaction.text("Geheim-00007 and Geheim-00499 and Geheim-00500")
        == f"{'*' * 12} and {'*' * 12} and Geheim-00500"
    )
    assert compiled[0] < 500 * 10 * 5  # all of them each time would be 300,900


@pytest.mark.parametrize(
    "number", ["12345678901", "-12345678901", "0.4251968214064328", "12345678901.5", "2.501e-06123", "1234567.25E+08"]
)
def test_a_number_stays_one(number: str) -> None:
    """Whatever stands in its place: JSON stays JSON."""
    masked = json.loads(Redaction().text(f'{{"token": {number}, "b": 1}}'))
    assert isinstance(masked["token"], int | float)
    assert masked["b"] == 1


@pytest.mark.parametrize("count", range(9))
def test_half_of_a_pair_moves_no_mask(count: int) -> None:
    text = '{"token": "' + "\udcff" * count + 'SECRETvalue99\\n"}'
    assert "value99" not in Redaction().text(text)
    assert b"value99" not in cast("bytes", Redaction().masked(text.encode("utf-8", "surrogatepass")))


def test_json_of_two_bytes_a_sign_is_looked_at_as_json() -> None:
    for value in ({"passwords": [SECRET]}, {"credentials": SECRET}, ["app", "--password", SECRET]):
        masked = cast("bytes", Redaction().masked(json.dumps(value).encode("utf-16")))
        assert SECRET not in masked.decode("utf-16")


async def test_what_would_take_for_ever_to_look_through_is_withheld(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction_module, "_SECONDS", -1e9)  # it has no time at all, on whatever machine
    async with opened(tmp_path, **SETTINGS) as bag:
        taken = await bag.take(LARGE, tool="env")
        assert "it could not be looked through for secrets" in told(taken.content)
        assert "masked" not in taken.text
        failed = await bag.take({"content": [block(LARGE)], "isError": True}, tool="env")
        assert (failed.is_error, "could not be looked through" in failed.text) == (True, True)
        facts = await bag.keep(iter([LARGE, LARGE]), tool="env")
        assert (facts.state, "looking through it for secrets took over" in facts.error) == ("failed", True), facts.error
    assert not anywhere(tmp_path)


async def test_all_looks_at_an_output_share_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, plain = [0.0], Rules.find

    def find(rules: Rules, data: bytes) -> Any:
        clock[0] += 40 * (b"ordinary line" in data)
        return plain(rules, data)

    monkeypatch.setattr(Rules, "find", find)
    monkeypatch.setattr(redaction_module.time, "thread_time", lambda: clock[0])
    async with opened(tmp_path, **SETTINGS) as bag:
        for output in (LARGE, LARGE.encode()):
            facts = await bag.keep(output, tool="env")
            assert (facts.state, "looking through it for secrets took over 60 s" in facts.error) == ("failed", True)
    assert not anywhere(tmp_path)


def test_what_is_remembered_of_an_output_takes_of_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, plain = [0.0], redact.Values.add

    def add(values: redact.Values, secret: bytes, kind: str) -> list[bytes]:
        clock[0] += 1
        return plain(values, secret, kind)

    monkeypatch.setattr(redact.Values, "add", add)
    monkeypatch.setattr(redaction_module.time, "thread_time", lambda: clock[0])
    rows = [{"password": f"aB3x{n:08}"} for n in range(100)]
    for value in (rows, json.dumps(rows), LargeJson(json.dumps(rows).encode()), UserList(rows)):
        assert "looking through it for secrets took over 60 s" in str(Redaction().masked(value))
    assert clock[0] < 4 * 62


def test_an_output_gets_time_for_its_bytes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction_module, "_REMEMBERED", 0)  # as if it had very much to find
    redaction, look_time = Redaction(), LookTime()
    redaction.value(LARGE, look_time)
    b"".join(redaction.chunks([LARGE.encode()], lambda _: None, look_time))
    assert look_time.bytes == len(LARGE)


async def test_a_stream_is_looked_at_by_the_rules_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[bytes] = []
    plain = Rules.find

    def find(rules: Rules, data: bytes) -> Any:
        looked.append(data)
        return plain(rules, data)

    monkeypatch.setattr(Rules, "find", find)
    given = b"".join(Redaction().chunks([f"{SECRET}\n{LINE}\n".encode()], lambda _: None))
    assert (SECRET.encode() in given, len(looked)) == (False, 1)


async def test_an_output_whose_end_cannot_be_masked_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, **SETTINGS) as bag:
        go_on = asyncio.Event()

        async def slow() -> str:
            await go_on.wait()
            monkeypatch.setattr(Rules, "find", broken)
            return SMALL

        def broken(*_: object) -> None:
            raise RuntimeError("no rule any more")

        running = await bag.run(slow, tool="env", background=True)
        assert isinstance(running, Running)
        go_on.set()
        (ended,) = (await bag.wait(running.handle)).ended
        assert (ended.state, ended.error) == ("interrupted", "not all of it is kept: no rule any more")
    assert not anywhere(tmp_path)


@pytest.mark.parametrize("kind", ["sqlite", "binary"])
async def test_a_notice_shows_no_text_that_stands_in_binary_data(tmp_path: Path, kind: str) -> None:
    secret = "Zk93hfQm27xPwLr8"
    data = secret.encode() + bytes(range(256)) * 600
    if kind == "sqlite":
        with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as database:
            database.execute("create table users (name text, password text)")
            database.executemany("insert into users values (?, ?)", [(f"n{n}", secret) for n in range(4000)])
            database.commit()
        data = (tmp_path / "a.db").read_bytes()
    async with opened(tmp_path / "home", **SETTINGS) as bag:
        taken = await bag.take(data, tool="env")
        assert isinstance(taken, Kept)
        assert "env returned " in taken.content
        assert secret not in taken.content
        assert secret.encode().hex(" ") not in taken.content


def raising(text: str) -> str:
    raise RuntimeError(text)


def in_parts(text: str) -> Iterator[str]:
    yield from [text, *[" and more" * 1000] * 20]


SAYING: dict[str, Callable[[str], object]] = {
    "text": str, "exception": raising, "value": lambda text: {"said": text}, "stream": in_parts,
}  # fmt: skip


@pytest.mark.parametrize("how", SAYING)
async def test_what_the_arguments_give_away_is_masked_in_the_first_output(tmp_path: Path, how: str) -> None:
    def login(password: str) -> object:
        return SAYING[how](f"login with {password} ok")

    async with opened(tmp_path, **SETTINGS) as bag:
        taken = await bag.run(login, tool="env", arguments={"password": SECRET})
        assert SECRET not in f"{taken.text}{taken.content}"
        assert "login with ****" in taken.text or isinstance(taken, Kept)
        for facts in await bag.outputs():
            assert SECRET not in (await bag.read(facts.handle, bytes=":", bounded=False)).text


async def test_without_the_extra_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    monkeypatch.delitem(sys.modules, "holdall.store.bundle.rules", raising=False)
    with pytest.raises(MissingExtra, match=r"^masking secrets needs the package 'google-re2'.* 'holdall\[redact\]'"):
        async with opened(tmp_path, **SETTINGS):
            pass


class Said:
    """Holds it under a name that says nothing, and says it in its own words."""

    def __init__(self) -> None:
        self.value = b"Zk93hfQm27xPwLr8"

    def __str__(self) -> str:
        return f"password={self.value.decode()}"


class SaidList(list[str]):
    def __repr__(self) -> str:
        return f"password={self[0]}"


class SaidNumber(int):
    def __str__(self) -> str:
        return "password=Zk93hfQm27xPwLr8"


class SaidName(enum.Enum):
    ONE = "password=Zk93hfQm27xPwLr8"


@pytest.mark.parametrize(
    "value",
    [Said(), SaidList(["Zk93hfQm27xPwLr8"]), SaidNumber(5), SaidName.ONE, {"password": "Zk93hfQm27xPwLr8"}.items()],
    ids=lambda value: type(value).__name__,
)
def test_what_passes_as_it_is_is_looked_at_as_it_names_itself(value: object) -> None:
    for given in (value, [value], {"x": (value,)}):
        masked = Redaction().masked(given)
        assert "Zk93" not in f"{masked!s} {masked!r}"
    now = datetime.datetime(2026, 11, 17, tzinfo=datetime.UTC)
    assert Redaction().masked(now) is now


class Login(NamedTuple):
    user: str
    password: str


def test_named_tuples_rows_and_queues_are_looked_through() -> None:
    with contextlib.closing(sqlite3.connect(":memory:")) as rows:
        rows.row_factory = sqlite3.Row
        row = rows.execute("select 'bob' as user, 'Zk93hfQm27xPwLr8' as password").fetchone()
    login = Login("bob", "Zk93hfQm27xPwLr8")
    for value in (login, [login], {"creds": login}, (login, 1), deque([("password", "Zk93hfQm27xPwLr8")]), row):
        masked = Redaction().masked(value)
        told = str(masked if not isinstance(masked, sqlite3.Row) else dict(masked))
        assert "Zk93" not in told
        assert "*" * 16 in told
    assert Redaction().masked(login) == Login("bob", "*" * 16)
    own: Any = type("Row", (), {})()  # neither names nor order: an object like any other
    own.password = "Zk93hfQm27xPwLr8"
    assert vars(Redaction().masked(own)) == {"password": "*" * 16}
    plain = Login("bob", "")
    assert Redaction().masked(plain) is plain


VALUE = "Hq7vTz92LmXp4Rk"
KEY_LINES = [base64.b64encode(bytes(range(n, n + 48))).decode() for n in range(3)]
KEY = ["-----BEGIN RSA PRIVATE KEY-----", *KEY_LINES, "-----END RSA PRIVATE KEY-----"]
VALUES: dict[str, object] = {
    "a short name": {"user": "bob", "pass": VALUE, "pw": VALUE, "auth": VALUE, "credentials": VALUE},
    "a short token": {"token": "Hq7vTz92Lm"},
    "a header": {"Authorization": "Hq7vTz92"},
    "a flag": {"args": ["--password", VALUE, "-v"]},
    "a flag with its value": {"cmd": ["mysql", "-u", "root", f"-p{VALUE}"]},
    "a pair": ["password", VALUE],
    "pairs": {"headers": [["Authorization", f"Bearer {VALUE}"], ["X-Token", VALUE]]},
    "a list": {"passwords": [VALUE, f"{VALUE}2"]},
    "below its name": {"password": {"type": "x", "value": VALUE}},
    "a value before its name": {"value": VALUE, "name": "DB_PASSWORD"},
    "a value far from its name": {"name": "DB_PASSWORD", "type": "x", "value": VALUE},
    "a key": {
        "env": {"OPENAI_KEY": f"{VALUE}q7Zk2mPw9LxT4bNs", "smtpPass": VALUE},
        "primaryKey": f"{VALUE}q7Zk2mPw9LxT4bNs",
    },
    "a Secret": {"data": {"a": VALUE}, "kind": "Secret", "stringData": {"b": VALUE}},
    "a variable": {"Env": ["A=b", f"DB_PASSWORD={VALUE} & more"]},
    "the lines of a key": {"source": [f"{one}\n" for one in KEY], "n": 1},
    "base64": {"data": base64.b64encode(f"DB_PASSWORD={VALUE}".encode()).decode()},
    "a number": {"password": 1234567890123, "n": [1234567890123, -5, 1.5, None, True]},
    "escapes": {"password": f'"ü\n{VALUE}"', "ü": "\\"},
}
FORMS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda value: value,
    "a text": json.dumps,
    "a text in lines": lambda value: json.dumps(value, indent=2),
    "a text in a result": lambda value: {"content": [block(json.dumps(value, indent=1))]},
    "lines of JSON": lambda value: f'{json.dumps(value)}\n{{"a": 1}}\n',
    "a log": lambda value: f"2026-11-17 INFO answer {json.dumps(value)} in 5 ms",
    "text in JSON": lambda value: json.dumps({"body": json.dumps({"body": json.dumps(value)})}),
    "large JSON": lambda value: LargeJson(json.dumps(value).encode()),
    "bytes": lambda value: json.dumps(value).encode(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("what", VALUES)
@requirement("bundle:redaction-in-json")
def test_a_value_is_masked_alike_as_an_object_and_as_text(what: str, form: str) -> None:
    came = FORMS[form](VALUES[what])
    masked = Redaction().masked(came)
    shown = masked.data if isinstance(masked, LargeJson) else masked
    shown = shown.decode() if isinstance(shown, bytes) else shown if isinstance(shown, str) else told(shown)
    packed = base64.b64encode(f"DB_PASSWORD={VALUE}".encode()).decode()[16:-4]
    assert [one for one in (VALUE[:8], packed, *KEY_LINES, '"password": 123') if one in shown] == []
    if form in ("a text", "a text in lines", "large JSON", "bytes"):
        assert len(shown) == len(FORMS["a text in lines" if "lines" in form else "a text"](VALUES[what]))
        assert shape(json.loads(shown)) == shape(VALUES[what])
    if form == "itself":
        assert shape(masked) == shape(VALUES[what])


def shape(value: Any) -> Any:
    """Without its texts."""
    if isinstance(value, dict):
        return {str(name): shape(one) for name, one in cast("dict[str, Any]", value).items()}
    return [shape(one) for one in cast("list[Any]", value)] if isinstance(value, list) else type(value).__name__


def test_what_has_no_secret_passes_as_the_same_object() -> None:
    for value in (
        {"name": "secretary", "value": "Anna Bell"},
        {"tokens": 5, "rows": [["a", 1], {"b": "cdefghij"}]},
        ["x"] * 9,
    ):
        assert Redaction().masked(value) is value
        assert Redaction().text(json.dumps(value)) == json.dumps(value)


@pytest.mark.parametrize("form", ["itself", "a text", "a text in a result", "text in JSON", "large JSON"])
def test_a_word_under_a_name_of_many_things_is_masked_there_only(form: str) -> None:
    redaction = Redaction()
    shown = str(redaction.masked(FORMS[form]({"auth": "required", "password": "swordfish"})))
    assert "required" not in shown
    assert "swordfish" not in shown
    assert redaction.text("required: swordfish") == "required: *********"


class Result(dict[str, Any]):
    """A result as a framework hands it on."""


def test_a_result_is_not_replaced_by_what_python_says_of_it() -> None:
    """As Python writes it, its lines are one: then the flag would be one of the command."""
    text = "curl is a tool\n -u a:bcdef means user"
    result = Result(content=[block(text), Result(block(text))], isError=False)
    assert Redaction().masked(result) is result
    with_secret = Redaction().masked(Result(content=[block(f"{text}\n{LINE}")], isError=True))
    assert with_secret == {"content": [block(f"{text}\nDB_PASSWORD={'*' * len(SECRET)}")], "isError": True}


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "value",
    [["abcdefg"] * 20_000, [{"a": "abcdefg"}] * 10_000, json.dumps(["abcdefg"] * 20_000), json.dumps([["-a", "bcdefg"]] * 9000),
     LargeJson(json.dumps(["abcdefg"] * 20_000).encode()), {"content": [{"type": "text", "text": LARGE}]}],
    ids=["a list", "objects", "text", "commands", "large JSON", "a result"],
)  # fmt: skip
def test_short_strings_are_looked_at_together_and_nothing_is_looked_at_twice(
    monkeypatch: pytest.MonkeyPatch, value: object
) -> None:
    looked: list[bytes] = []
    in_text: Any = getattr(Rules, "_in_text")  # noqa: B009 - it is private

    def counted(self: Rules, data: bytes) -> object:
        looked.append(data)
        return in_text(self, data)

    monkeypatch.setattr(Rules, "_in_text", counted)
    Redaction().masked(value)
    assert len(looked) <= 20
    assert len(set(looked)) == len(looked)


async def test_names_that_are_masked_alike_stay_members_of_their_own(tmp_path: Path) -> None:
    users = ["alice", "bob", "carol"]
    value = {"keys": {f"AKIAIOSFODNN7EXAMPL{at}": {"user": one} for at, one in enumerate(users)}}
    result = {"content": [block("ok")], "structuredContent": value, "isError": False}
    async with opened(tmp_path, **SETTINGS) as bag:
        taken = [await bag.take(one, tool="env") for one in (value, result)]
    for shown in (taken[0].content, taken[1].content["structuredContent"]):
        names = cast("dict[str, dict[str, Any]]", shown)["keys"]
        assert [one["user"] for one in names.values()] == users
        assert [*names] == ["*" * 20, f"{'*' * 20} (2)", f"{'*' * 20} (3)"]


@pytest.mark.in_full(one_in=4)
@pytest.mark.parametrize("count", [10, 30_000, 70_000])
@pytest.mark.parametrize("way", ["take", "keep", "asynchronous"])
async def test_a_stream_that_fails_is_kept_up_to_there_and_its_error_is_masked(
    tmp_path: Path, way: str, count: int
) -> None:
    def rows() -> Iterator[str]:
        for number in range(count):
            yield f"row {number} of this\n"
        raise RuntimeError(f"cannot connect: password={SECRET}")

    async def later() -> AsyncIterator[str]:
        for one in rows():
            yield one

    async with opened(tmp_path, **SETTINGS) as bag:
        if way == "keep":
            facts = await bag.keep(rows(), tool="env")
        else:
            taken = await bag.take(rows() if way == "take" else later(), tool="env")
            assert SECRET not in taken.text
            assert f"password={'*' * len(SECRET)}" in taken.text
            if count == 10:
                return
            assert isinstance(taken, Kept)
            facts = taken.artifact
        given = "".join(f"row {number} of this\n" for number in range(count))
        assert (facts.state, facts.measure.bytes) == ("failed", len(given))
        assert facts.error == f"RuntimeError: cannot connect: password={'*' * len(SECRET)}"
        assert (await bag.read(facts.handle, bytes=":", bounded=False)).text == given
    assert traces(tmp_path, SECRET) == []


async def test_what_cannot_be_masked_is_withheld_and_the_call_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_self: object, _data: bytes) -> list[Any]:
        raise ZeroDivisionError

    async with opened(tmp_path, **SETTINGS) as bag:
        monkeypatch.setattr(Rules, "find", broken)
        taken = await bag.run(lambda: SMALL, tool="env")
        assert taken.text == (
            "[not shown and not kept: it could not be looked through for secrets, as the tool's policy demands "
            "(ZeroDivisionError)]"
        )


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize("dialect", ["holdall", "clamp", "legacy"])
@pytest.mark.parametrize("store", ["never", "large"])
async def test_the_error_of_a_call_that_wrote_much_and_is_not_stored_is_masked(
    tmp_path: Path, dialect: str, store: Any
) -> None:
    def rows() -> Iterator[str]:
        yield from (f"row {number} of this\n" for number in range(20_000))
        raise RuntimeError(f"cannot: password={SECRET}")

    async def writes(writer: Any) -> None:
        for one in range(20_000):
            writer.write(f"row {one} of this\n")
        raise ValueError(f"password={SECRET}")

    policy = ToolPolicy(redact=True, store=store) if store == "never" else ToolPolicy(redact=True)
    async with opened(tmp_path, dialect=dialect, tools={"env": policy}) as bag:
        for tool in (rows, writes):
            taken = await bag.run(tool, tool="env")
            assert SECRET not in taken.text
            assert "password=*" in taken.text


class _Response:
    """Of which a public field and its words for itself have secrets."""

    def __init__(self) -> None:
        self.text = "token=ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
        self._raw = "password=Zq8Wr3Lk9Tp2Vx7N"

    def __repr__(self) -> str:
        return f"<Response {self._raw}>"


async def test_an_object_whose_words_have_a_secret_beside_a_masked_field_is_its_fields(tmp_path: Path) -> None:
    async with opened(tmp_path, tools={"v": ToolPolicy(redact=True)}) as bag:
        taken = await bag.take({"a": _Response()}, tool="v")
        assert taken.content == {"a": {"text": "token=" + "*" * 40}}


@pytest.mark.parametrize(
    "line",
    [
        "+ PGPASSWORD={} pg_dump shop",
        "password: {} (rotated 2026-01-01)",
        "password={}|user=bob",
        "DB_PASSWORD={}\tDB_USER=x",
    ],
)
async def test_a_password_with_more_behind_it_on_its_line_is_known_by_itself(tmp_path: Path, line: str) -> None:
    secret = "Zq8Wr3Lk9Tp2Vx7N"
    async with opened(tmp_path, tools={"v": ToolPolicy(redact=True)}) as bag:
        first = await bag.take(f"{line.format(secret)}\nlogin with {secret} refused\n", tool="v")
        later = await bag.take(f"again with {secret} on 2026-01-01, as bob\n", tool="v")
    assert secret not in str(first.content)
    assert str(later.content).startswith(f"again with {'*' * 16} on 2026-01-01, as bob\n")


async def test_what_was_given_up_is_looked_through_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, given_up, over = asyncio.Event(), threading.Event(), threading.Event()
    loop, plain, value = asyncio.get_running_loop(), Rules.find, Redaction.value
    looked: list[bytes] = []

    def find(rules: Rules, data: bytes) -> Any:
        looked.append(data)
        if data.startswith(b"row"):
            loop.call_soon_threadsafe(begun.set)
            given_up.wait()
        return plain(rules, data)

    def to_its_end(redaction: Redaction, output: object, look_time: LookTime | None = None) -> tuple[object, int]:
        try:
            return value(redaction, output, look_time)
        finally:
            if isinstance(output, tuple):
                over.set()

    monkeypatch.setattr(Rules, "find", find)
    monkeypatch.setattr(Redaction, "value", to_its_end)
    async with opened(tmp_path, **SETTINGS) as bag:
        taking = asyncio.create_task(bag.take(tuple(f"row {number} of many" for number in range(100)), tool="env"))
        await begun.wait()
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        given_up.set()
        await asyncio.to_thread(over.wait)
    assert sum(data.startswith(b"row") for data in looked) == 1


ENDS = """
import asyncio, sys, threading
from holdall import Holdall, MemoryStore, Settings, ToolPolicy
from holdall.bag.redaction import Redaction
from holdall.store.bundle.rules import Rules

rows, begun, plain = tuple(f"user=bob{n} password=hunter{n}!" for n in range(20_000)), threading.Event(), Rules.find

def find(rules, data):
    if data.startswith(b"user"):
        begun.set()
    return plain(rules, data)

async def main():
    async with Holdall.open(store=MemoryStore(), settings=Settings(tools={"env": ToolPolicy(redact=True)})) as bag:
        taking = asyncio.create_task(bag.take(rows, tool="env"))
        await asyncio.to_thread(begun.wait)
        taking.cancel()
        await asyncio.wait([taking])

def by_itself():
    threading.Thread(target=Redaction().masked, args=(rows,), daemon=True).start()
    begun.wait()

Rules.find = find
asyncio.run(main()) if sys.argv[1] == "cancelled" else by_itself()
print("the end")
"""


@pytest.mark.parametrize("how", ["cancelled", "by itself"])
def test_a_program_ends_as_it_wants_while_an_output_is_looked_through(how: str) -> None:
    """RE2 searches without the interpreter: a thread that is ended when it comes back takes the process with it."""
    ended = subprocess.run([sys.executable, "-c", ENDS, how], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the end\n", "")
