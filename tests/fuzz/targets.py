"""Every reader of foreign input, as a function of bytes that may fail only in its declared way."""

import asyncio
import contextlib
import functools
import io
import itertools
import json
from collections.abc import Callable
from contextlib import closing

import httpx2

from holdall import MemoryStore
from holdall.agent import front_matter
from holdall.bag.journal import events_in
from holdall.blocking import Holdall
from holdall.formats import packed
from holdall.formats.registry import kind_of, outline
from holdall.mcp.client import codec, plain_http
from holdall.mcp.install.documents import JsonDocument
from holdall.mcp.install.yaml_document import YamlDocument
from holdall.policy.measure import Measurer
from holdall.search.pattern import read_pattern
from holdall.store import records
from holdall.store.bundle.restore import import_bundle
from holdall.store.logs import joined, read_lines
from holdall.text import ranges
from holdall.text.json.find import find
from holdall.text.json.path import parse_path
from holdall.text.tokens import Estimate
from holdall.values import handles, retention
from holdall.values.errors import HoldallError
from holdall.values.outputs import Facts
from holdall.wire.arguments import coerced, schema_problem

Target = Callable[[bytes], object]
_SESSION = "0b8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22"
_SCHEMA = {
    "type": "object", "required": ["handle"],
    "properties": {"handle": {"type": "string"}, "lines": {"type": "string"}, "limit": {"type": "integer"}},
}  # fmt: skip
_VERBS = ("context_read", "context_tail", "context_grep", "context_slice", "context_query", "context_diff")


def record(data: bytes) -> None:
    with contextlib.suppress(HoldallError):
        records.decode(data, handle="k3f9")
    line = data.partition(b"\n")[0]  # past the checksum, as a program that lies would write it
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError):
        Facts.from_json(json.loads(line))


def session(data: bytes) -> None:
    with contextlib.suppress(KeyError, TypeError, ValueError, RecursionError, HoldallError):
        records.decode_session(data, _SESSION)


def log(data: bytes) -> None:
    def pread(length: int, start: int) -> bytes:
        return data[start : start + length]

    for version in records.VERSIONS:
        found = joined(read_lines(pread, 0, version), 0)
        events_in(found.lines)
    sealed = b"".join(records.sealed(line + b"\n") for line in data.split(b"\n") if line[:1] + line[-1:] == b"{}")
    events_in(records.lines_in(sealed, 0, records.VERSION, lambda: 0).lines)
    list(records.erased(sealed, ["k3f9"], records.VERSION))


def bundle(data: bytes) -> None:
    with contextlib.suppress(HoldallError), closing(MemoryStore()) as store:
        import_bundle(store, io.BytesIO(data).read)


def json_text(data: bytes) -> None:
    def read(start: int, end: int) -> bytes:
        return data[start:end]

    for path in ("$..*", "/a/0", "$[1:9:2]"):
        for lines in (False, True):
            find(read, len(data), parse_path(path), lines=lines, limit=100)


def path(data: bytes) -> None:
    with contextlib.suppress(HoldallError):
        asked = parse_path(_text(data), filters=True)
        document = b'{"a":[1,{"b":null}],"":"x"}'
        find(lambda start, end: document[start:end], len(document), asked, lines=False, limit=9)


def pattern(data: bytes) -> None:
    for literal in (False, True):
        with contextlib.suppress(HoldallError):
            read_pattern(_text(data), literal=literal, ignore_case=True)


def kind(data: bytes) -> None:
    """What it is, its outline and table, for each kind that it could be taken for."""
    measurer = Measurer(Estimate())
    measurer.feed(data)
    measure, _ = measurer.finish("")
    kind_of(data[:4096], data[-4096:], whole=len(data) <= 4096, valid=measure.utf8)
    outline(lambda start, end: data[start:end], measure)


def archive(data: bytes) -> None:
    def read(start: int, end: int) -> bytes:
        return data[start:end]

    for form in ("zip", "tar"):
        with contextlib.suppress(HoldallError):
            for member in packed.members_of(form, read, len(data)).files[:5]:
                with contextlib.suppress(HoldallError):
                    for _ in packed.checked(packed.bytes_of(form, read, member, 1 << 20)[0], member):
                        pass


def mcp_message(data: bytes) -> None:
    codec.decode(bytearray(data))
    codec.reply_in(data)
    codec.decode(bytearray(b'{"jsonrpc":"2.0","id":1,"result":%s}' % data))


def http_response(data: bytes) -> None:
    async def read() -> None:
        connection = plain_http._Connection()  # pyright: ignore[reportPrivateUsage]
        connection.data_received(data)
        connection.eof_received()
        with contextlib.suppress(httpx2.RemoteProtocolError):
            status, _, headers = await connection.head()
            size, _ = plain_http._framing(status, headers)  # pyright: ignore[reportPrivateUsage]
            async for _ in connection.body(size):
                pass

    asyncio.run(read())


def agent_file(data: bytes) -> None:
    with contextlib.suppress(front_matter.InvalidYaml):
        front_matter.parse(_text(data))


def client_file(data: bytes) -> None:
    for document in (JsonDocument, YamlDocument):
        with contextlib.suppress(ValueError, RecursionError, HoldallError):
            document(_text(data))


def arguments(data: bytes) -> None:
    with contextlib.suppress(ValueError, RecursionError):
        value = json.loads(data)
        if isinstance(value, dict):
            schema_problem(_SCHEMA, coerced(_SCHEMA, value))  # pyright: ignore[reportUnknownArgumentType]


def words(data: bytes) -> None:
    """What a person or a model writes for a handle, a range or a time."""
    text = _text(data)
    handles.parse(text, session=_SESSION)
    for unit in ("lines", "bytes", "chars"):
        with contextlib.suppress(HoldallError):
            ranges.resolve_offsets(ranges.parse(text, unit=unit), 100, unit=unit)
    with contextlib.suppress(HoldallError):
        retention.parse(text)


@functools.lru_cache(1)
def _bag(_: int) -> Holdall:
    """A new one after some time: what is kept is kept."""
    return Holdall.open(session="fuzz", store=MemoryStore())


_calls = itertools.count()


def verb(data: bytes) -> None:
    """One call of a model: the verb and its arguments from the first line, the output is the rest. It always answers."""
    bag = _bag(next(_calls) // 200)
    asked, _, output = data.partition(b"\n")
    handle = bag.keep(output).handle
    with contextlib.suppress(ValueError, RecursionError):
        given = json.loads(asked[1:])
        if isinstance(given, dict):
            name = _VERBS[(asked[0] if asked else 0) % len(_VERBS)]
            answer = bag.call(name, {"handle": handle, **given})  # pyright: ignore[reportUnknownArgumentType]
            assert answer.text


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


TARGETS: dict[str, tuple[Target, list[bytes]]] = {
    "record": (record, [records.encode(Facts("k3f9", _SESSION, _SESSION, 1.0), records.BlockTable()), json.dumps(Facts("k3f9", _SESSION, _SESSION, 1.0).to_json()).encode()]),
    "session": (session, [b'{"format": 2, "id": "x", "name": "s", "created": 1.0, "retention": "30 days", "parent": "", "was": ["a"], "mark": "abcde", "proof": "0"}']),
    "log": (log, [b'{"at":1.0,"event":"turn","handle":"k3f9","seconds":2}\n{"at":1,"event":"kept","bytes":"x","proof":"0000000000000000"}\n']),
    "bundle": (bundle, []),
    "json": (json_text, [b'{"a":[1,{"b":"\\u00e9x"}],"c":null} tail', b'{"a":1}\n[2]\n"x"\n', b'[1e5,-0.5,true,{"a":{"a":{}}}]']),
    "path": (path, [b"$.a[?@.b>1 && !@.c]['x',0,1:2]..*", b"/a~1b/0", b"$[-1]['\\u00e9']"]),
    "pattern": (pattern, [b"(?i)^a+[b-z\\d]{2,3}(?:x|y)?\\b$", b"(?P<n>.*)\\x41\\u{1F600}[[:alpha:]]"]),
    "kind": (kind, [b"id,name\n1,a\n2,b\n", b"2024-01-01T00:00:00Z ERROR x\n" * 3, b"<html><body><h1>x</h1></body>", b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", b"# HELP a b\n# TYPE a counter\na{b=\"c\"} 1\n", b'{"a":1}\n{"a":2}\n', b"NAME   AGE\nx      1\ny      2\n", b"key: value\nother:\n  - 1\n", b"\x00\x01\xff"]),
    "archive": (archive, []),
    "MCP message": (mcp_message, [b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"structuredContent":{"a":[1]}}}', b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1}}', b'[{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"m"}}]']),
    "HTTP response": (http_response, [b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nA: b\r\n\r\n"]),
    "agent file": (agent_file, [b"name: x\ntools: [a, b]\nlimits: {n: 1.5, on: true}\ntext: |\n  a\n  b\n"]),
    "client file": (client_file, [b'{"mcpServers": {"a": {"command": "x", "args": ["y"]}}, // c\n}', b"mcp:\n  a:\n    command: x\n    args:\n      - y\n"]),
    "arguments": (arguments, [b'{"handle":"k3f9","lines":[1,50],"limit":"5","x":null}']),
    "words": (words, [b"k3f9", b"session-x/0b8f2a54-7f5e-4c39-8a29-5d0e7a6b1c22", b"-5:", b"10:20", b"30 days", b"k3f9!a.log"]),
    "verb": (verb, [b'0{"lines":"1:3"}\na\nb\nc\n', b'2{"pattern":"a.b","context":2}\naxb\nc\n', b'4{"sql":"select * from t","path":"$.a"}\n{"a":1}\n', b'3{"bytes":"0:5"}\n\xff\x00abc', b'5{"other":"k3f9"}\nx\n', b'1{"lines":5}\nx\ny']),
}  # fmt: skip


def _seeds() -> None:
    """Those that a program has to write."""
    import tarfile
    import zipfile

    from tests.store.bundles import exported

    with closing(MemoryStore()) as store:
        made = store.open_session("s1")
        store.append_transcript(made, b'{"role":"user"}\n')
        TARGETS["bundle"][1].append(exported(store, made))
    zipped, tarred = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as files:
        files.writestr("a.txt", "abc" * 9)
    with tarfile.open(fileobj=tarred, mode="w") as files:
        files.addfile(tarfile.TarInfo("a.txt"))
    TARGETS["archive"][1].extend([zipped.getvalue(), tarred.getvalue()[:1024]])


_seeds()
