"""What is measured on: made once, the same every time, like what services write.

A log whose lines vary in length with a few very long ones among them, as logs have; a log of equal lines; one JSON
value on a single line; and a file of JSON lines.
"""

import datetime
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

VERSION = 1  # part of every name: data of another version is made again
RARE = "deadline exceeded on shard 7731"
NEEDLE = "b7e151628aed2a6a"

_LEVELS = ["INFO"] * 70 + ["DEBUG"] * 20 + ["WARN"] * 6 + ["ERROR"] * 4
_PATHS = ["/api/v2/orders/{}", "/api/v2/users/{}/cart", "/health", "/static/app.{}.js", "/api/v2/search?q=item+{}"]
_TROUBLE = [
    "connection reset by peer", "upstream timeout after 30000ms", "connection refused", "host unreachable",
    "cache miss for key order:{}", "retrying in {} ms", "slow query: select * from orders where id = {}",
]  # fmt: skip
_START = datetime.datetime(2026, 11, 2, 6, 0, 0, tzinfo=datetime.UTC)
_BATCH = 20_000


def log_lines() -> Iterator[str]:
    """Batches of lines without end; about 130 bytes a line, one in two thousand above 600."""
    rng = random.Random(2026)
    pool = [_message(rng) for _ in range(50_000)]
    pool += [_long_message(rng) for _ in range(25)]
    second = 0
    while True:
        lines: list[str] = []
        for start in range(0, _BATCH, 500):
            stamp = (_START + datetime.timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
            second += 1
            lines += [f"{stamp}.{2 * at:03d}Z {text}" for at, text in enumerate(rng.choices(pool, k=500))]
            if start == 0 and rng.random() < 0.1:
                lines[-1] = f"{stamp}.999Z ERROR worker-7 {RARE}, giving up"
        yield "\n".join(lines) + "\n"


def equal_lines() -> Iterator[str]:
    """The same without the variety: every line has 119 bytes and its newline."""
    for batch in log_lines():
        yield "".join(f"{line[:119]:.<119}\n" for line in batch.split("\n")[:-1])


def json_items() -> Iterator[str]:
    """Batches of JSON objects, one a line."""
    rng = random.Random(7)
    number = 0
    while True:
        batch: list[str] = []
        for _ in range(_BATCH):
            number += 1
            batch.append(json.dumps(_item(rng, number), separators=(",", ":")))
        yield "\n".join(batch) + "\n"


def one_line() -> Iterator[str]:
    """The inside of one JSON array on one line: batches of items, each followed by a comma."""
    rng = random.Random(11)
    pool = [json.dumps(_item(rng, number), separators=(",", ":")) for number in range(50_000)]
    while True:
        batch = rng.choices(pool, k=_BATCH)
        if rng.random() < 0.1:
            batch[0] = json.dumps({"id": 0, "trace": NEEDLE}, separators=(",", ":"))
        yield ",".join(batch) + ","


def make(folder: Path, name: str, batches: Callable[[], Iterator[str]], size: int, *, array: bool = False) -> Path:
    """The file of about `size` bytes, cut after a whole line or item; made only if it is missing."""
    path = folder / f"{name}-v{VERSION}-{size}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with open(part, "wb", buffering=1 << 20) as file:
        taken = file.write(b"[" if array else b"")
        for batch in batches():
            data = batch.encode()
            if taken + len(data) >= size:
                end, close = (b"},", b'{"id":-1}]') if array else (b"\n", b"")
                cut = data.rfind(end, 0, max(1, size - taken))
                file.write(data[: cut + len(end)] if cut >= 0 else b"")
                file.write(close)  # an item more, so that no comma is left over
                break
            taken += file.write(data)
    part.rename(path)
    return path


def _message(rng: random.Random) -> str:
    level, worker = rng.choice(_LEVELS), rng.randrange(32)
    if level in ("WARN", "ERROR"):
        said = rng.choice(_TROUBLE).format(rng.randrange(100_000))
        return f"{level} worker-{worker} request_id={rng.getrandbits(64):016x} {said}"
    path = rng.choice(_PATHS).format(rng.randrange(100_000))
    status, took = rng.choice([200, 200, 200, 200, 201, 304, 404]), int(rng.lognormvariate(3.5, 1.2))
    return (
        f"{level} worker-{worker} request_id={rng.getrandbits(64):016x} {rng.choice(['GET', 'GET', 'POST', 'PUT'])} "
        f"{path} status={status} bytes={rng.randrange(200, 90_000)} took={took}ms"
    )


def _long_message(rng: random.Random) -> str:
    payload = json.dumps([_item(rng, rng.randrange(100_000)) for _ in range(rng.randrange(4, 16))])
    return f"ERROR worker-{rng.randrange(32)} rejected payload {payload}"


def _item(rng: random.Random, number: int) -> dict[str, object]:
    return {
        "id": number,
        "trace": f"{rng.getrandbits(64):016x}",
        "status": rng.choice([200, 200, 200, 201, 404, 500]),
        "took_ms": round(rng.lognormvariate(3.5, 1.2), 2),
        "user": {"name": f"user{rng.randrange(10_000)}", "plan": rng.choice(["free", "team", "company"])},
        "tags": rng.sample(["a", "b", "c", "d", "e"], 2),
    }
