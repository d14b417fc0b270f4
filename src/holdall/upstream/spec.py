"""What is known of an MCP server before it is started. Frozen data; its text forms never show a secret."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from holdall.text.escape import one_line

Revision = Literal["auto", "handshake", "2026-07-28"]
CALL_SECONDS = 600.0  # without an answer and without progress
START_SECONDS = 60.0  # a first `npx` or `uvx` fetches packages before it answers
_LEAST_SECRET = 4  # a shorter value hides more of a message than it protects
_MASK = "***"


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A program that speaks over its standard input and output."""

    name: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    inherits: bool = False  # the whole environment of this process, or only what every program needs
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS
    revision: Revision = "auto"
    source: str = ""  # the file that names it
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # keys that are not known here

    @property
    def shown(self) -> str:
        """Its command by name: arguments may hold passwords."""
        return one_line(os.path.basename(self.command) or self.command, 60)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.environment.values())


@dataclass(frozen=True, slots=True)
class HttpServer:
    """A server behind a URL that speaks streamable HTTP."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS
    revision: Revision = "auto"
    source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)

    @property
    def shown(self) -> str:
        """Its URL without user, password and query, which may be keys."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return one_line(f"{parts.scheme}://{host}{port}{parts.path}", 120)

    @property
    def secrets(self) -> tuple[str, ...]:
        parts = urlsplit(self.url)
        bare = tuple(value.partition(" ")[2] for value in self.headers.values())  # of "Bearer TOKEN" the token
        return (*self.headers.values(), *bare, parts.password or "", parts.query)


ServerSpec = StdioServer | HttpServer


def without_secrets(text: str, spec: ServerSpec) -> str:
    """What a server says may repeat what it was given; that is masked wherever the text goes."""
    for secret in sorted(spec.secrets, key=len, reverse=True):
        if len(secret) >= _LEAST_SECRET:
            text = text.replace(secret, _MASK)
    return text
