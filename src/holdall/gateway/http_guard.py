"""Who may speak to a gateway over HTTP: the exact host, no foreign origin, a token. Pure, but for the comparing.

A page in a browser must not reach us by a name of its own that leads here, so the host is compared exactly. A session
id says which session, never whose: that is for the token to say.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_ONCE = frozenset(
    ("host", "origin", "authorization", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name",
     "content-type", "last-event-id")
)  # fmt: skip
_PARAMS = "mcp-param-"
_SCHEME = "bearer "


class Denied(Exception):
    """`status` is HTTP's."""

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Guard:
    """`tokens` are by principal; `hosts` and `origins` are written as a client sends them."""

    tokens: Mapping[str, str] = field(repr=False)
    hosts: frozenset[str]
    origins: frozenset[str]

    def checked(self, raw: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
        """The headers by their names in lower case, of a request that came by a name of ours. Raises Denied."""
        headers: dict[str, str] = {}
        for name, value in raw:
            key = name.decode("latin-1").lower()
            if key in headers and (key in _ONCE or key.startswith(_PARAMS)):
                raise Denied(400, f"the header {key} stands twice")
            headers[key] = value.decode("latin-1")
        if headers.get("host", "").lower() not in self.hosts:
            raise Denied(421, "this host is not served here; allow it with --allow-host")
        if "origin" in headers and headers["origin"].lower() not in self.origins:
            raise Denied(403, "this origin is not allowed; allow it with --allow-origin")
        return headers

    def principal(self, headers: Mapping[str, str]) -> str:
        """Who asks. Raises Denied."""
        given = headers.get("authorization", "")
        if not given.lower().startswith(_SCHEME):
            raise Denied(401, "a token is needed: Authorization: Bearer TOKEN")
        token = given[len(_SCHEME) :].strip().encode("latin-1", "replace")
        # All are compared, so that the time it takes says nothing about which of them is nearly right.
        found = [who for who, known in self.tokens.items() if hmac.compare_digest(known.encode(), token)]
        if not found:
            raise Denied(401, "this token is not known")
        return found[0]


PREFLIGHT = [
    (b"access-control-allow-methods", b"POST, GET, DELETE"),
    (b"access-control-allow-headers", b"*, authorization"),
    (b"access-control-max-age", b"3600"),
]


def cors(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    """What lets a page of this origin, which was checked, read the answer."""
    if (origin := headers.get("origin")) is None:
        return []
    return [
        (b"access-control-allow-origin", origin.encode("latin-1")),
        (b"access-control-expose-headers", b"mcp-session-id, www-authenticate"),
        (b"vary", b"origin"),
    ]


def hosts_of(host: str, port: int, allowed: Sequence[str]) -> frozenset[str]:
    """How clients write this address."""
    own = f"[{host}]" if ":" in host else host
    names = {own.lower()} | ({"localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else set[str]())
    found = {f"{name}:{port}" for name in names} | (names if port == 80 else set[str]())
    return frozenset(found | {one.lower() for one in allowed})


def origins_of(hosts: frozenset[str], allowed: Sequence[str]) -> frozenset[str]:
    return frozenset({f"http://{host}" for host in hosts} | {one.lower().rstrip("/") for one in allowed})


def is_loopback(host: str) -> bool:
    return host.lower() in ("localhost", "127.0.0.1", "::1")
