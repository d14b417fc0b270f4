"""How an output gets its place: its facts, its file, and the one copy that identical outputs share.

Everything here happens under the session's lock, after the bytes are durable and before anybody sees a handle.
"""

import contextlib
import errno
from collections.abc import Collection, Sequence
from dataclasses import replace

from holdall.policy.measure import checksum
from holdall.store import files
from holdall.store.directory import disk, session_files
from holdall.store.directory.folder import SessionFolder, holds_bytes
from holdall.store.directory.index import Catalogue
from holdall.store.directory.live import is_running
from holdall.store.protocol import Removal
from holdall.store.records import SUFFIX, expired, file_for, is_by_content, tombstone
from holdall.values.errors import OutputInUse, StoreFault
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK, BlockTable


def place(
    folder: SessionFolder, catalogue: Catalogue, facts: Facts, table: BlockTable, temporary: str, inside: int
) -> str:
    """Give the bytes their name, or none where the same bytes are kept already."""
    if twin := twin_of(folder, catalogue, facts, table):
        return twin.file
    file = file_for(facts)
    target, name = folder.inside(file)
    files.rename(temporary, name, src_dir_fd=inside, dst_dir_fd=target)
    if target != folder.descriptor:
        try:
            files.fsync(target)
        except OSError:
            files.unlink(name, dir_fd=target)
            raise
    return file


def publish(folder: SessionFolder, facts: Facts, table: BlockTable) -> Facts:
    """A record for bytes that have their place. Where it is refused, bytes that are its own go again."""
    try:
        return folder.publish(facts, table)
    except BaseException:
        if facts.id in facts.file:
            with contextlib.suppress(OSError):
                folder.remove_bytes(facts.file)
        raise


def settle(folder: SessionFolder, catalogue: Catalogue, facts: Facts, table: BlockTable) -> Facts:
    """The last record of a running output; its own file goes where the same bytes are kept already."""
    own = facts.file
    if twin := twin_of(folder, catalogue, facts, table):
        facts = replace(facts, file=twin.file)
    folder.rewrite(facts, table)
    if facts.file != own:
        folder.remove_bytes(own)
    catalogue.note(folder, facts)
    return facts


def expire(folder: SessionFolder, catalogue: Catalogue, handles: Sequence[str], rule: str, now: float) -> int:
    """Tombstones in place of outputs; the bytes that this freed. The caller holds the lock.

    First what tells of their content: notes, and what events quote. An output without its tombstone is found again by
    the next try, and bytes that nobody names by `gc`. Raises StoreFault where a record cannot be read.
    """
    going = [loaded[0] for handle in handles if (loaded := folder.load(handle)) is not None]
    going = [facts for facts in going if facts.state != "expired" and not _is_running(folder, facts)]
    if not going:
        return 0
    gone = {facts.handle for facts in going}
    every, unreadable = catalogue.survey(folder)
    check_readable(unreadable)
    staying = [facts for facts in every if facts.handle not in gone and facts.file]
    contents = {facts.measure.sha256 for facts in going}
    contents -= {facts.measure.sha256 for facts in staying}
    session_files.forget(contents, [facts.id for facts in going], inside=folder.descriptor)
    session_files.erase(gone, inside=folder.descriptor, version=folder.session.format)
    unnamed = _unnamed(going, staying)
    stones = [expired(facts, rule, now) for facts in going]
    freed = _bury(folder, stones, unnamed)
    freed += sum(folder.remove_bytes(file) for file in unnamed)
    catalogue.bury(folder, [*gone], stones)
    return freed


def check_readable(unreadable: Collection[str]) -> None:
    """A record that cannot be read may name any file, and have any content: a tombstone beside it would say that bytes
    are gone which are there."""
    if unreadable:
        raise StoreFault(
            f"the record of {next(iter(unreadable))} cannot be read and may name the same bytes; nothing was removed. "
            "`holdall verify` tells more; `holdall rm --session` removes a session with all that is in it."
        )


def remove(folder: SessionFolder, catalogue: Catalogue, handles: Sequence[str] | None, now: float) -> Removal:
    """Tombstones in place of outputs, or of all, and nothing left of what they held. The caller holds the lock.

    First what tells of their content, as above, so that nothing of it stays behind a tombstone where this is killed;
    then the tombstones, then what nobody names any more, anyone who left it: a second try finishes the first.
    """
    outputs, unreadable = catalogue.survey(folder)
    if handles is not None:
        check_readable(unreadable)
    going = [facts for facts in outputs if handles is None or facts.handle in handles]
    for facts in going:
        if _is_running(folder, facts):
            raise OutputInUse(facts.handle)
    gone = {facts.handle for facts in going}
    staying = [facts for facts in outputs if facts.handle not in gone and facts.file]
    stones = [tombstone(facts, now) for facts in going]
    new = [stone for stone, facts in zip(stones, going, strict=True) if stone != facts]
    is_told = _tell_nothing(folder, going, staying, all_of_it=handles is None)
    freed = _bury(folder, new, _unnamed(going, staying))
    for handle in unreadable:
        files.unlink(handle + SUFFIX, dir_fd=folder.descriptor)
    if not is_told:
        freed += _remove_unnamed(folder, {facts.file for facts in staying})
    if not is_told or new:  # again, for what was written meanwhile; a question that is still asked erases its own
        _tell_nothing(folder, going, staying, all_of_it=handles is None, has_room=True)
    freed += _remove_unnamed(folder, {facts.file for facts in staying})
    for _, inside in folder.places():
        files.fsync(inside)
    catalogue.bury(folder, [*gone, *unreadable], stones)
    shared = {facts.handle: tuple(one.handle for one in staying if one.file == facts.file) for facts in going}
    held = {handle: holders for handle, holders in shared.items() if holders}
    return Removal(tuple(stones), freed, held, gone_before=sum(facts.state == "expired" for facts in going))


def _tell_nothing(
    folder: SessionFolder, going: Sequence[Facts], staying: Sequence[Facts], *, all_of_it: bool, has_room: bool = False
) -> bool:
    """Take out of notes, events and the tree what was in these outputs. False where the disk is full."""
    contents = {facts.measure.sha256 for facts in staying if facts.state != "running"}
    notes = session_files.listed(inside=folder.descriptor)
    left = {note.content for note in notes if is_by_content(note.content)} - contents
    session_files.forget(left, [facts.id for facts in going], inside=folder.descriptor)
    if all_of_it:
        session_files.remove_all(folder.descriptor)
        return True
    try:
        gone = {facts.handle for facts in going}
        session_files.erase(gone, inside=folder.descriptor, version=folder.session.format)
    except OSError as problem:
        if has_room or problem.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    return True


def _is_running(folder: SessionFolder, facts: Facts) -> bool:
    """Asked of the file: on a full disk the record of one whose writer is gone may say that it runs, to the end."""
    return facts.state == "running" and is_running(folder, facts)


def _unnamed(going: Sequence[Facts], staying: Sequence[Facts]) -> set[str]:
    """The files of bytes that nobody names any more."""
    return {facts.file for facts in going if facts.file} - {facts.file for facts in staying}


def _bury(folder: SessionFolder, stones: Sequence[Facts], unnamed: Collection[str]) -> int:
    """Tombstones in place of records. On a full disk the bytes go first and make room for them; how many these were.

    If it ends between the two, an output is there without its bytes, and removing it again finishes that.
    """
    freed = 0
    for stone in stones:
        try:
            folder.rewrite(stone, BlockTable())
        except OSError as problem:
            if problem.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            freed += sum(folder.remove_bytes(file) for file in unnamed)
            folder.rewrite(stone, BlockTable())
    return freed


def _remove_unnamed(folder: SessionFolder, named: Collection[str]) -> int:
    """Remove every file of bytes that no record names and nobody writes. How many bytes that freed."""
    freed = 0
    for prefix, inside in folder.places():
        for name in disk.names_in(inside):
            if not holds_bytes(name) or prefix + name in named:
                continue
            with contextlib.suppress(FileNotFoundError):
                size = files.stat(name, dir_fd=inside).st_size
                freed += size if disk.remove_abandoned(name, inside=inside) else 0
    return freed


def twin_of(folder: SessionFolder, catalogue: Catalogue, facts: Facts, table: BlockTable) -> Facts | None:
    """Another output of the session with the same bytes, still as they came. A damaged copy is no copy."""
    twins = catalogue.twins(folder, facts.measure.sha256)
    return next((other for other in twins if _is_intact(folder, other, table)), None)


def _is_intact(folder: SessionFolder, other: Facts, table: BlockTable) -> bool:
    try:
        descriptor = folder.open_bytes(other)
    except (OSError, StoreFault):  # also that of a tombstone, which names none
        return False
    try:
        if files.fstat(descriptor).st_size != other.measure.bytes:
            return False
        blocks = (files.pread(descriptor, BLOCK, index * BLOCK) for index in range(len(table)))
        return all(checksum(block) == proof for block, proof in zip(blocks, table.checksums, strict=True))
    finally:
        files.close(descriptor)
