"""A server on the loopback address that speaks OpenAI's chat API, as far as tests need: it says what it is told to."""

import contextlib
import json
import select
import threading
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECONDS = 100.0  # more than anything here takes


@dataclass
class Scene:
    """What the next request gets. `body` goes out as it is; `hangs` waits until the client has gone."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict[str, str])
    hangs: bool = False
    drops: bool = False


def completion(text: str | None = "", *, calls: tuple[tuple[str, str], ...] = (), finish: str = "stop") -> str:
    """A chat completion. Each call is a name and its arguments as text, which may be no JSON."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate(calls, 1)
        ]
    usage = {"prompt_tokens": 120, "completion_tokens": 7, "total_tokens": 127}
    return json.dumps(
        {
            "id": "c1",
            "object": "chat.completion",
            "created": 1,
            "model": "small-one",
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": usage | {"prompt_tokens_details": {"cached_tokens": 20}},
        }
    )


class OpenAIServer:
    def __init__(self) -> None:
        self.scenes: deque[Scene] = deque()
        self.seen: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.asked = threading.Event()
        self.left_alone = threading.Event()  # the client closed the connection of a request that hangs
        self.closing = threading.Event()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    def will(self, *scenes: Scene) -> None:
        self.scenes.extend(scenes)

    @contextlib.contextmanager
    def running(self) -> "Generator[OpenAIServer]":
        self._thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._http.shutdown()
            self._http.server_close()
            self._thread.join(SECONDS)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:  # the name that the base class looks for
                length = int(self.headers["Content-Length"])
                server.seen.append(json.loads(self.rfile.read(length)))
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                server.asked.set()
                scene = server.scenes.popleft() if len(server.scenes) > 1 else server.scenes[0]
                if scene.hangs:
                    server.watch(self.connection)
                if scene.hangs or scene.drops:
                    self.close_connection = True
                    return
                body = scene.body.encode()
                self.send_response(scene.status)
                for name, value in {"Content-Type": "application/json", **scene.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """A test prints nothing."""

        return Handler

    def watch(self, connection: Any) -> None:
        poll = select.poll()  # `select` knows no descriptor above 1,023
        poll.register(connection, select.POLLIN)
        while not self.closing.is_set():
            if poll.poll(50):
                self.left_alone.set()
                return
