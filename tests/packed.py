"""Packed files for tests, made by the tools that everybody has."""

import io
import tarfile
import zipfile
from collections.abc import Mapping

from holdall.formats.outline import Read

LOG = "".join(f"2026-01-01 00:00:{n % 60:02} {'ERROR' if n % 500 == 3 else 'INFO'} job {n}\n" for n in range(3000))


def reading(data: bytes) -> Read:
    return lambda start, end: data[max(0, start) : end]


def zipped(members: Mapping[str, str | bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return made.getvalue()


def tarred(members: Mapping[str, bytes | tarfile.TarInfo], form: int = tarfile.PAX_FORMAT) -> bytes:
    """A value that is a header is added as it is, without bytes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as archive:
        for name, data in members.items():
            info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            info.name = name
            if isinstance(data, bytes):
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
            else:
                archive.addfile(info)
    return made.getvalue()


def entry(kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, target
    return info
