"""A bundle restored as sessions of a store, or refused whole.

Everything is written into a hidden folder first, under names that are ours to choose from: the names in a bundle have
a grammar in which no path can be written. Every byte is measured again and compared with what its record says. Only
when the last byte was read and proved do the sessions get their places, all at once.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace

from holdall.policy.retention import Retention
from holdall.store import bundle_publish as publishing
from holdall.store import disk
from holdall.store.bundle_session import IncomingSession
from holdall.store.bundle_stream import BundleReader
from holdall.store.ids import new_uuid
from holdall.store.keeping import Quota, room_for
from holdall.store.protocol import Progress, SessionInfo
from holdall.store.root import Root
from holdall.store.sessions import PREFIX, Sessions, check_name
from holdall.text.numbers import size
from holdall.values.bundles import Bundle, Imported
from holdall.values.errors import BundleRefused, SessionExists, StoreFull, WrongUse

_BESIDE = 16 * 1024 * 1024  # bytes that records, logs and folders may take beside the outputs
_PER_ENTRY = 4096


def import_bundle(
    root: Root,
    read: Callable[[int], bytes],
    *,
    name: str | None = None,
    quota: Quota | None = None,
    used_bytes: int = 0,
    listed: Callable[[Bundle], None] | None = None,
    progress: Progress | None = None,
) -> Imported:
    """`name` is for the first session; those below it are named after it. `used_bytes` are those of the whole store.

    `listed` is told what is in the bundle before anything is written.
    """
    reader = BundleReader(read)
    bundle = reader.contents()
    names = names_for(bundle, name)
    if listed is not None:
        listed(bundle)
    with disk.explained("importing a bundle", root.home):
        root.check(make=True)
        for one in names:
            if root.sessions.find(one) is not None:
                raise SessionExists(publishing.taken(one))
        _check_room(bundle, root.home, quota or Quota(), used_bytes)
        infos, new_ids = _infos(bundle, names, root)
        with publishing.staging(root.descriptor, root.sessions) as staged:
            renamed = {one.id: info.id for one, info in zip(bundle.sessions, infos, strict=True)} if new_ids else {}
            incoming = _Incoming(reader, bundle, infos, Sessions(staged.folder, lambda: 0.0), renamed)
            incoming.take(progress)
            publishing.publish(staged, root.sessions, infos)
    return Imported(bundle, tuple(names), tuple(info.id for info in infos), new_ids)


def names_for(bundle: Bundle, name: str | None) -> list[str]:
    """What the sessions of a bundle are called here: those below the first keep their names, or follow its new one."""
    if name is None:
        return [one.name for one in bundle.sessions]
    old = bundle.name
    names = [name]
    for one in bundle.sessions[1:]:
        rest = one.name.removeprefix(old + "/") if one.name.startswith(old + "/") else one.name
        names.append(f"{name}/{rest}")
    for one in names:
        check_name(one)
    if len(set(names)) < len(names):
        raise WrongUse(f'two sessions of the bundle would have the same name under "{name}". Choose another one.')
    return names


class _Incoming:
    """The entries of a bundle on their way into the staging folder."""

    def __init__(
        self,
        reader: BundleReader,
        bundle: Bundle,
        infos: Sequence[SessionInfo],
        staged: Sessions,
        renamed: dict[str, str],
    ) -> None:
        self._reader = reader
        self._bundle = bundle
        self._infos = infos
        self._staged = staged
        self._renamed = renamed

    def take(self, progress: Progress | None) -> None:
        place = 0
        session = self._open(place, progress, 0)
        try:
            while (entry := self._reader.next_entry()) is not None:
                while entry.session > place and place + 1 < len(self._infos):
                    session.finish()
                    place += 1
                    done = session.done
                    session.close()
                    session = self._open(place, progress, done)
                if entry.session != place:
                    raise BundleRefused(f"this bundle is damaged: {entry.name} stands outside of its session.")
                session.take(entry, self._reader)
            session.finish()
            while place + 1 < len(self._infos):
                place += 1
                session.close()
                session = self._open(place, progress, session.done)
                session.finish()
        finally:
            session.close()

    def _open(self, place: int, progress: Progress | None, done: int) -> IncomingSession:
        folder = self._staged.restore(self._infos[place])
        told = self._bundle.sessions[place]
        return IncomingSession(folder, told, self._infos[place], self._renamed, progress, done)


def _infos(bundle: Bundle, names: Sequence[str], root: Root) -> tuple[list[SessionInfo], bool]:
    """The sessions as they will be. Where one of their ids is taken here, all of them get new ones."""
    there = set(disk.names_in(root.descriptor))
    new_ids = any(PREFIX + one.id in there for one in bundle.sessions)
    ids = [new_uuid() if new_ids else one.id for one in bundle.sessions]
    infos: list[SessionInfo] = []
    for one, id, name in zip(bundle.sessions, ids, names, strict=True):
        # Whoever imports an old session wants it: it is not to go at the next gc because of its age.
        info = SessionInfo(id=id, name=name, created=one.created, retention=Retention(days=None))
        infos.append(info if one.parent < 0 else replace(info, parent=ids[one.parent]))
    return infos, new_ids


def _check_room(bundle: Bundle, home: str, quota: Quota, used: int) -> None:
    for one in bundle.sessions:
        room_for(Quota(session_bytes=quota.session_bytes), 0, 0)(one.stored_bytes)
    room_for(Quota(store_bytes=quota.store_bytes), 0, used)(bundle.stored_bytes)
    logs = sum(one.transcript_bytes + one.events_bytes + one.tree_bytes + one.note_bytes for one in bundle.sessions)
    needed = bundle.stored_bytes + logs + bundle.entries * _PER_ENTRY + _BESIDE
    about = os.statvfs(home)
    free = about.f_bavail * about.f_frsize
    if needed > free:
        raise StoreFull(
            f"this bundle unpacks to {size(bundle.stored_bytes + logs)}, and {size(free)} are free for {home}. Nothing "
            "was restored. Make room, or choose another data folder with --home or HOLDALL_HOME."
        )
