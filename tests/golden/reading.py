"""Everything that can be read of a store, by the public names and the program: facts, bytes, ledger, trees, transcripts.

`make_store.py` wrote down what today's version reads; the tests read it again with the version at hand.
"""

import dataclasses
import hashlib
import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

from holdall import Facts, HoldallError
from holdall.blocking import Holdall
from tests.golden.commands import Commands
from tests.golden.golden import DATA

STORE = DATA / "store-1.tar.xz"
BUNDLES = {name: DATA / f"bundle-1-{name}.holdall" for name in ("outputs", "agent")}  # by the session that was exported
BEGAN = 1_700_000_000.0  # seconds; the clock of the store began here
DAY = 86_400.0
READ_AT = BEGAN + 9 * DAY
"""By then one output has expired and another has not."""


def unpacked(folder: Path) -> Path:
    """A copy of the store to work in, with the modes and times that it had."""
    with lzma.open(STORE) as file, tarfile.open(fileobj=file) as archive:
        archive.extractall(folder, filter="tar")
    return folder / "home"


def read_all(home: Path, holdall: Commands) -> dict[str, Any]:
    """Without a change: by a clock of its own, at which nothing expires."""
    return {
        "sessions": (sessions := holdall("ls", "--sessions", "--json", home=home).json["sessions"]),
        "verify": holdall("verify", "--json", home=home).json,
        "stats": holdall("stats", "--json", home=home).json | _totals(home),  # by today's clock more has expired
        "read": {one["name"]: read_session(home, one["name"]) for one in sessions},
    }


def _totals(home: Path) -> dict[str, Any]:
    with Holdall.open(home=str(home), session="outputs", clock=lambda: READ_AT) as bag:
        total = bag.care.stats()
        return {one.name: getattr(total, one.name) for one in dataclasses.fields(total)}


def read_session(home: Path, name: str) -> dict[str, Any]:
    with Holdall.open(home=str(home), session=name, clock=lambda: READ_AT) as bag:
        outputs = list(bag.outputs())
        return {
            "outputs": [
                _told(facts)
                | {"long_handle": facts.long_handle, "is_whole": facts.is_whole, "content": _content(bag, facts.handle)}
                | {"coverage": bag.coverage(facts.handle).to_json(facts.measure.bytes)}
                for facts in outputs
            ],
            "unreadable": {handle: str(fault) for handle, fault in bag.unreadable().items()},
            "counters": bag.counters().to_json(),
            "seen": bag.seen(),
            "events": [event.to_json() for event in bag.history()],
            "tree": bag.tree().to_json(),
            "transcript": [json.loads(line) for line in bag.transcript().splitlines()],
        }


def _told(facts: Facts) -> dict[str, Any]:
    """An interrupted output ended when somebody found that out, which is now."""
    flat = facts.to_json()
    return flat | {"ended": flat["ended"] is not None} if facts.state == "interrupted" else flat


def _content(bag: Holdall, handle: str) -> str:
    """The hash of the bytes as they are read, or why they are not."""
    digest = hashlib.sha256()
    try:
        for chunk in bag.stream(handle):
            digest.update(chunk)
    except HoldallError as problem:
        return f"{type(problem).__name__}: {problem}"
    return digest.hexdigest()
