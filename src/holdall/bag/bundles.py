"""A session as one file, and back: for archives, for another machine, for review.

    await export_session("s1", "s1.holdall")
    await import_bundle("s1.holdall", home="/another/data/folder")

No session is opened, and nothing is added to the store that is not in the bundle.
"""

import asyncio
import contextlib
import difflib
import math
import os
import threading
from collections.abc import Callable, Generator
from typing import BinaryIO, TypeVar, cast

from holdall.store.bundle import stream
from holdall.store.bundle.export import SessionChanged
from holdall.store.bundle.export import export_session as write_bundle
from holdall.store.bundle.redact import Redactor, usual_rules
from holdall.store.bundle.restore import import_bundle as read_bundle
from holdall.store.bundle.stream import BundleReader
from holdall.store.opening import default_home, is_store, open_store, shown
from holdall.store.protocol import OutputStore, Progress, Quota, SessionInfo, session_by
from holdall.text.escape import one_line
from holdall.text.tokens import tokenizer_named
from holdall.values.bundles import MAX_RATIO, Bundle, Exported, Imported
from holdall.values.errors import UsageError
from holdall.values.retention import Retention
from holdall.values.settings import Settings

Listed = Callable[[Bundle], None]
Write = Callable[[bytes], object]
Read = Callable[[int], bytes]
Done = TypeVar("Done")
_TRIES = 3  # where an output expires in the middle of an export
_LISTED = 5


async def export_session(  # noqa: PLR0913 - the options of one command
    session: str,
    target: str | BinaryIO,
    *,
    home: str | None = None,
    settings: Settings | None = None,
    redact: bool = False,
    with_packed: bool = False,
    force: bool = False,
    listed: Listed | None = None,
    progress: Progress | None = None,
) -> Exported:
    """Write a session and every session below it to `target`, a path or something to write to.

    With `redact`, what looks like a secret is masked, and the bundle says where; what is packed is refused then, or
    goes as it is `with_packed`. `listed` gets the contents before the
    first byte; `progress` gets the bytes of outputs so far. Both are called from another thread. A file is there whole
    or not at all, and an existing one is only replaced with `force`.
    """
    settings = settings or Settings()
    where = home or settings.store_dir or default_home()

    def work(tick: Progress) -> Exported:
        rules = usual_rules() if redact else None
        if not is_store(where):
            raise UsageError(f"there is nothing to export: {shown(where)} is not there.")
        with _opened(where, settings) as store:
            found = _session(store, session)

            def write(out: Write, tell: Listed | None) -> Exported:
                redactor = Redactor(rules) if rules is not None else None
                return write_bundle(
                    store, found, out, redactor=redactor, with_packed=with_packed, listed=tell, progress=tick
                )

            if not isinstance(target, str):
                return write(target.write, listed)
            for number in range(_TRIES):
                try:
                    with stream.new_file(target, force=force) as out:
                        return write(out, listed if number == 0 else None)
                except SessionChanged:
                    if number == _TRIES - 1:
                        raise
        raise AssertionError("the last try returns or raises")

    return await _run_in_thread(work, progress)


async def import_bundle(
    source: str | BinaryIO,
    *,
    name: str | None = None,
    home: str | None = None,
    settings: Settings | None = None,
    max_ratio: float = MAX_RATIO,
    below: bool = False,
    listed: Listed | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Restore a bundle: every handle in it resolves to the same bytes. A bundle that is not valid is refused as a
    whole, and so is one that unpacks to more than `max_ratio` times its size.

    `name` is for its first session, where the one that it has is taken; those below it are named after it. So they are
    with `below`: a stranger may have called one of them as you call a session of yours.
    """
    settings = settings or Settings()
    where = home or settings.store_dir or default_home()

    def work(tick: Progress) -> Imported:
        with _reading(source) as read:
            quota = Quota(settings.quota_bytes, settings.session_quota_bytes)
            with _opened(where, settings) as store:
                return read_bundle(
                    store, read, name=name, quota=quota, listed=listed, progress=tick,
                    packed=os.path.getsize(source) if isinstance(source, str) and os.path.isfile(source) else None,
                    max_ratio=max_ratio, below=below,
                )  # fmt: skip

    return await _run_in_thread(work, progress)


async def copy_session(
    session: str,
    to: str,
    *,
    name: str | None = None,
    home: str | None = None,
    settings: Settings | None = None,
    listed: Listed | None = None,
    progress: Progress | None = None,
) -> Imported:
    """The same session, and those below it, in the store at `to`, which may be of another kind; all of it or nothing.

    It goes as a bundle through a pipe, with nothing in between. It is kept there as long as here.
    """
    settings = settings or Settings()
    here = home or settings.store_dir or default_home()

    def rule_here() -> Retention:
        with _opened(here, settings) as store:
            return _session(store, session).retention

    rule = await asyncio.to_thread(rule_here)  # before anything is made at the other place
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb") as target:

        async def give() -> Exported:
            try:
                return await export_session(session, target, home=here, settings=settings)
            finally:
                with contextlib.suppress(BrokenPipeError):
                    target.close()

        async def get() -> Imported:
            try:
                return await import_bundle(
                    source, name=name, home=to, settings=settings, max_ratio=math.inf, listed=listed, progress=progress
                )
            finally:
                source.close()

        given, got = await asyncio.gather(give(), get(), return_exceptions=True)
    for problem in (given, got):
        if isinstance(problem, BaseException) and not isinstance(problem, BrokenPipeError):
            raise problem

    def keep_as_long() -> None:
        with _opened(to, settings) as store:
            for one in cast("Imported", got).names:
                store.open_session(one, retention=rule)

    await asyncio.to_thread(keep_as_long)
    return cast("Imported", got)


async def contents_of(source: str | BinaryIO) -> Bundle:
    """What a bundle says that it holds. Only the beginning is read; an import verifies it."""

    def work(_: Progress) -> Bundle:
        with _reading(source) as read:
            return BundleReader(read).contents()

    return await _run_in_thread(work, None)


class _Stopped(Exception):
    """Raised in the thread when nobody waits for its work any longer."""


async def _run_in_thread(work: Callable[[Progress], Done], progress: Progress | None) -> Done:
    """A thread cannot be ended from outside: it checks whether anybody still waits, and cleans up."""
    stopped = threading.Event()

    def tick(done: int) -> None:
        if stopped.is_set():
            raise _Stopped
        if progress is not None:
            progress(done)

    try:
        return await asyncio.to_thread(work, tick)
    finally:
        stopped.set()


@contextlib.contextmanager
def _opened(home: str, settings: Settings) -> Generator[OutputStore]:
    store = open_store(home, tokenizer=tokenizer_named(settings.tokenizer), settings=settings)
    try:
        yield store
    finally:
        store.close()


@contextlib.contextmanager
def _reading(source: str | BinaryIO) -> Generator[Read]:
    if not isinstance(source, str):
        yield source.read
        return
    with stream.open_bundle(source) as read:
        yield read


def _session(store: OutputStore, wanted: str) -> SessionInfo:
    found = session_by(store, wanted)
    if found is not None:
        return found
    names = [one.name for one in store.sessions()]
    near = difflib.get_close_matches(wanted[:200], names, n=1)
    told = ", ".join(one_line(name, 60) for name in names[:_LISTED]) or "none"
    hint = f" Did you mean {one_line(near[0], 60)}?" if near else ""
    raise UsageError(
        f'there is no session "{one_line(wanted, 100)}". The newest are: {told}. (`holdall ls --sessions` lists all.)'
        f"{hint}"
    )
