"""The same care as `upkeep` takes, of a store in memory: expiry, and proof of every byte.

There is no left-over to look for: what nobody holds is gone. Nothing here runs by itself.
"""

import hashlib
from collections.abc import Iterator, Sequence

from holdall.store.memory import MemoryStore
from holdall.store.protocol import Progress, SessionInfo
from holdall.store.upkeep import Sweep, Verdict
from holdall.values.errors import OutputDamaged, OutputExpired, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK

_READ = 16 * BLOCK


def sweep(store: MemoryStore, *, dry_run: bool = False) -> Sweep:
    """Carry out retention."""
    now = store.clock()
    expired: list[tuple[str, Facts]] = []
    freed = 0
    for session in store.sessions():
        outputs = store.outputs(session)
        ended = [facts for facts in outputs if facts.state not in ("expired", "running")]
        over = [facts for facts in ended if session.retention.expires_at(facts.created) <= now]
        expired += [(session.name, facts) for facts in over]
        if dry_run:
            staying = {facts.file for facts in outputs if facts not in over}
            freed += sum({facts.file: facts.measure.bytes for facts in over if facts.file not in staying}.values())
        else:
            freed += sum(store.expire(session, facts, f"kept for {session.retention}") for facts in over)
    return Sweep(tuple(expired), (), freed, dry_run)


def verify(
    store: MemoryStore, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
) -> Iterator[Verdict]:
    """Read every byte again and compare every hash."""
    done = 0
    for session in store.sessions() if sessions is None else sessions:
        for facts in store.outputs(session):
            if facts.state in ("expired", "running"):
                continue
            try:
                _prove(store, facts, progress, done)
            except OutputExpired:  # since it was listed
                continue
            except StoreFault as fault:
                yield Verdict(session.name, facts.handle, facts.measure.bytes, str(fault))
            else:
                yield Verdict(session.name, facts.handle, facts.measure.bytes)
            done += facts.measure.bytes


def _prove(store: MemoryStore, facts: Facts, progress: Progress | None, done: int) -> None:
    """Raises where one byte is not as it came. `done` bytes of other outputs were read before."""
    reader = store.open(facts)
    digest = hashlib.sha256()
    try:
        for start in range(0, facts.measure.bytes, _READ):
            part = reader.read(start, start + _READ)
            digest.update(part)
            done += len(part)
            if progress is not None:
                progress(done)
    finally:
        reader.close()
    if digest.hexdigest() != facts.measure.sha256:
        raise OutputDamaged(facts.handle, "sha256 mismatch")
