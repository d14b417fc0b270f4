"""What was worked out about an output and would be costly to work out again: small notes beside the outputs.

A note is named by the hash of the output's content and a key, both hexadecimal. It goes when the last output with that
content does, and whoever finds none works it out anew: a note is never the only place where something is.
"""

import contextlib
import os
import re
from collections.abc import Iterable

from holdall.store import disk
from holdall.store.ids import new_tag
from holdall.values.errors import WrongUse

FOLDER = "answers"
_HEX = re.compile(r"[0-9a-f]{16,64}")


def name_of(content: str, key: str) -> str:
    if not _HEX.fullmatch(content) or not _HEX.fullmatch(key):
        raise WrongUse("a note is named by two hashes.")
    return f"{content}-{key}"


def recall(name: str, *, inside: int) -> bytes | None:
    """`inside` is the open folder of a session."""
    with contextlib.suppress(FileNotFoundError):
        folder = disk.open_folder(FOLDER, inside=inside)
        try:
            return disk.read_file(name, inside=folder)
        finally:
            os.close(folder)
    return None


def remember(name: str, data: bytes, *, inside: int) -> None:
    folder = disk.make_folder(FOLDER, inside=inside)
    try:
        disk.write_new(name, data, inside=folder, token=new_tag(), replace=True)
    finally:
        os.close(folder)


def forget(contents: Iterable[str], *, inside: int) -> None:
    """Remove the notes about outputs with these hashes. One that cannot be removed names nothing that is kept."""
    gone = tuple(f"{content}-" for content in contents if content)
    if not gone:
        return
    with contextlib.suppress(FileNotFoundError):
        folder = disk.open_folder(FOLDER, inside=inside)
        try:
            for name in disk.names_in(folder):
                if name.startswith(gone):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
        finally:
            os.close(folder)
