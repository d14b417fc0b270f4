"""An MCP server by hand, in raw lines of JSON, that misbehaves as its first argument says. It needs no package.

Unless its manner is to spoil the greeting it answers `initialize`, `tools/list` and the tools `echo` and `pid`.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

MANNER = sys.argv[1]
COUNT = sys.argv[2] if len(sys.argv) > 2 else ""  # a file that gets a line for each start
SPEAKING = threading.Lock()


def say(message: dict[str, Any] | list[Any]) -> None:
    shout(json.dumps(message) + "\n")


def shout(text: str) -> None:
    with SPEAKING:
        sys.stdout.write(text)
        sys.stdout.flush()


def reply(number: Any, result: Any) -> None:
    say({"jsonrpc": "2.0", "id": number, "result": result})


def raw(number: Any, text: str) -> None:
    shout('{"jsonrpc":"2.0","id":' + str(number) + ',"result":' + text + "}\n")


def answer(number: Any, text: str) -> None:
    reply(number, {"content": [{"type": "text", "text": text}]})


def murmur(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def wait() -> None:
    while True:
        time.sleep(60)


def call(number: Any, params: dict[str, Any]) -> None:  # noqa: PLR0912, PLR0915 - one line for each manner
    name, arguments = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    match name:
        case "echo":
            answer(number, str(arguments.get("text", "")) * int(arguments.get("times", 1)))
        case "later":  # and the others meanwhile
            text = str(arguments["text"]) * int(arguments.get("times", 1))
            timer = threading.Timer(float(arguments["seconds"]), answer, (number, text))
            timer.daemon = True
            timer.start()
        case "pid":
            answer(number, str(os.getpid()))
        case "die":
            murmur(str(arguments.get("words", "Traceback: it is all over")) + "\n")
            os._exit(int(arguments.get("code", 1)))
        case "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "break off":
            shout('{"jsonrpc":"2.0","id":' + str(number) + ',"result":{"content":[{"ty')
            os._exit(0)
        case "close stdout":
            os.close(1)
            wait()
        case "close stdin":
            os.close(0)
            answer(number, "deaf")
            wait()
        case "hang":
            wait()
        case "silence":
            pass  # no answer to this one; all others are answered
        case "garbage":
            shout("Listening on port 8080\n\n\x1b[31mred\x1b[0m\nnot json {\n{not json}\n[1, 2\n\xff\xfe\n{}\n[]\n42\n")
            answer(number, "after garbage")
        case "flood":
            while True:
                shout("noise " * 1000 + "\n")
        case "endless":
            shout('{"jsonrpc":"2.0","id":' + str(number) + ',"result":{"text":"')
            while True:
                shout("x" * 65536)
        case "stderr":
            murmur("word " * int(arguments["words"]) + "the last words\n")
            answer(number, "said")
        case "leak":
            murmur(f"my key is {os.environ['SECRET_KEY']}\n")
            os._exit(1)
        case "unknown fields":
            raw(
                number,
                '{"zeta":null,"content":[{"type":"future","payload":{"b":1.0,"a":12345678901234567890}}],'
                '"alpha":[1e3,"\\u00e9"],"_meta":{"x/y":true}},"top":1',
            )
        case "half a character":
            raw(number, '{"content":[{"type":"text","text":"\\ud83d"}]}')
        case "not utf-8":
            line = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"caf\xe9"}]}}\n' % number
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
        case "no result":
            say({"jsonrpc": "2.0", "id": number})
        case "result is a list":
            reply(number, [1, 2])
        case "null":
            reply(number, None)
        case "bad json":
            raw(number, '{"content":[tru]}')
        case "deep":
            raw(number, '{"deep":' + "[" * 100_000 + "]" * 100_000 + "}")
        case "error in words":
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": arguments["words"]}})
        case "huge error":
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "\x1b[2J" + "E" * 10_000_000}})
        case "as if closed":
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32000, "message": "Connection closed"}})
        case "bad error":
            say({"jsonrpc": "2.0", "id": number, "error": "oops"})
        case "twice":
            answer(number, "first")
            answer(number, "second")
        case "batch":
            say([{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "in a batch"}},
                 {"jsonrpc": "2.0", "id": number, "result": {"content": []}}])  # fmt: skip
        case "other ids":
            filling = " " * int(arguments.get("bytes", 0))
            others: list[Any] = [str(number), float(number), True, None, [number], {}]
            for other in others:
                answer(other, f"wrong{filling}")
            answer(number, f"right{filling}")
            answer(number, f"late{filling}")
        case "notes":
            for step in range(int(arguments["count"])):
                say({"jsonrpc": "2.0", "method": "notifications/progress",
                     "params": {"progressToken": token, "progress": step, "future": step}})  # fmt: skip
                say({"jsonrpc": "2.0", "method": "notifications/future/thing", "params": {"step": step}})
            answer(number, "noted")
        case "one line":
            answer(number, "x" * int(arguments["bytes"]))
        case "many":  # and that is the end of it
            raw(number, json.dumps({"content": [{"type": "text", "text": str(n)} for n in range(100_000)]}))
            os._exit(0)
        case "drip":
            line = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": []}}) + "\n"
            for letter in line:
                shout(letter)
                time.sleep(float(arguments["pause"]))
        case _:
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32602, "message": f"no tool {name}"}})


def greet(number: Any) -> None:
    if MANNER == "never greets":
        murmur("starting, please wait\n")
        wait()
    if MANNER == "dies at once":
        murmur("no such option: --frobnicate\n")
        os._exit(2)
    if MANNER == "refuses":
        say({"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": "not today"}})
        return
    version = "1999-01-01" if MANNER == "speaks another revision" else "2025-06-18"
    capabilities = {"tools": {"listChanged": True}}
    reply(
        number,
        {"protocolVersion": version, "capabilities": capabilities, "serverInfo": {"name": "bad", "version": "0"}},
    )


def tools(number: Any, params: dict[str, Any]) -> None:
    page = int(params.get("cursor", 0))
    if MANNER == "lists without end":
        reply(number, {"tools": [], "nextCursor": str(page + 1)})
    elif MANNER == "lists more and more":
        more: list[dict[str, Any]] = [{"name": f"t{page}-{one}", "inputSchema": {}} for one in range(6000)]
        reply(number, {"tools": more, "nextCursor": str(page + 1)})
    elif MANNER == "lists large pages":
        reply(number, {"tools": [{"name": f"t{page}", "description": "x" * 3_900_000}], "nextCursor": str(page + 1)})
    elif MANNER == "lists deep":
        raw(number, '{"tools":[{"name":"echo","inputSchema":{}},{"name":"deep","inputSchema":{},"outputSchema":'
            + '{"items":' * 330 + "{}" + "}" * 330 + "}]}")  # fmt: skip
    elif MANNER == "lists very many":
        reply(number, {"tools": [{"name": "t", "inputSchema": {}}] * 100_000})
    elif MANNER == "refuses to list":
        say({"jsonrpc": "2.0", "id": number, "error": {"code": -32603, "message": "not today"}})
    elif MANNER == "lists oddly":
        odd = {"name": "echo", "future": 1, "outputSchema": 5}
        reply(number, {"tools": [odd, {"name": 7}, "text", None, {"title": "nameless"}]})
    else:
        reply(number, {"tools": [{"name": "echo", "inputSchema": {}}]})


def count(line: str) -> None:
    if COUNT:
        with open(COUNT, "a", encoding="utf-8") as file:
            file.write(f"{line}\n")


def hear(message: dict[str, Any]) -> None:
    number, params = message.get("id"), message.get("params", {})
    match message.get("method"):
        case "initialize":
            greet(number)
        case "tools/list":
            tools(number, params)
        case "tools/call":
            call(number, params)
        case "ping":
            reply(number, {})
        case "notifications/cancelled":
            count(f"cancelled {params.get('requestId')}")
        case str() if number is not None and MANNER != "is silent about what it does not know":
            say({"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "Method not found"}})
        case _:
            pass


def main() -> None:
    count(str(os.getpid()))
    if MANNER in ("ignores the end", "never greets"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MANNER == "has a child":
        program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
        count(str(subprocess.Popen([sys.executable, "-c", program]).pid))
    for line in sys.stdin:
        hear(json.loads(line))
    if MANNER == "ignores the end":
        wait()


if __name__ == "__main__":
    main()
