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


def pdf(*pages: str) -> bytes:
    """A page for each text, as old programs write them."""
    kids = " ".join(f"{3 + 2 * at} 0 R" for at in range(len(pages)))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
    ]
    font = f"{3 + 2 * len(pages)} 0 R"
    for at, text in enumerate(pages):
        lines = " ".join(f"({line}) Tj 0 -14 Td" for line in text.split("\n"))
        content = f"BT /F1 12 Tf 72 720 Td {lines} ET"
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * at} 0 R "
            f"/Resources << /Font << /F1 {font} >> >> >>"
        )
        bodies.append(f"<< /Length {len(content)} >>\nstream\n{content}\nendstream")
    bodies.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    made, places = b"%PDF-1.4\n", list[int]()
    for number, body in enumerate(bodies, start=1):
        places.append(len(made))
        made += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    end = f"trailer << /Root 1 0 R /Size {len(bodies) + 1} >>\nstartxref\n{len(made)}\n%%EOF\n"
    return made + f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}".encode() + end.encode()
