"""The text of a PDF by page, by pypdf, in the confined process that runs SQL, which can be killed and reaches nothing.

`pages_of` is the caller's side, `prepare` and `extracted` run in the process.
"""

import codecs
import contextlib
import importlib
import io
import logging
import mmap
import os
from collections.abc import Iterator
from typing import Any

from holdall.sql.worker import SqlWorker
from holdall.store.deadline import of_seconds
from holdall.store.protocol import OutputReader
from holdall.text.escape import foreign
from holdall.text.numbers import plural
from holdall.values.errors import BadMember, MissingExtra, WorkerFault
from holdall.values.patterns import lazy_pattern

_PAGE = lazy_pattern(r"(?:page-|#)([1-9][0-9]{0,8})")
_MEMORY = 512 * 1024 * 1024
_MOST_CHARS = 16 * 1024 * 1024
_CUT = "\n[the text is longer: read the pages one by one]\n"


def pages_of(reader: OutputReader, wanted: str, worker: SqlWorker, seconds: float) -> Iterator[bytes]:
    """The text of `page-3`; without a name that of all pages, each behind a line that tells its number."""
    match = _PAGE.fullmatch(wanted)
    if wanted and not match:
        raise BadMember(f"a PDF has pages: HANDLE!page-1, or HANDLE! for all of them, not {foreign(wanted)}.")
    request = {"pdf": int(match[1]) if match else 0, "memory_bytes": _MEMORY}
    with reader.local_file() as descriptor:
        answer = worker.ask(request, [descriptor], deadline=of_seconds(seconds))
    match answer.get("error"):
        case None:
            yield answer["text"].encode("utf-8", "replace")
        case "missing":
            raise MissingExtra("pypdf", "pdf", "the text of a PDF")
        case "memory":
            raise WorkerFault("the text of the PDF needs more memory than it may take.")
        case _:
            raise BadMember(answer["message"])


# ── In the process ──────────────────────────────────────────────────────────────────────────────────────────────


# One page with two words: what pypdf imports to read it, it must have imported before the process gives up its rights.
_SMALL = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 37>>stream\nBT /F 9 Tf 1 1 Td (two words) Tj ET  \nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\n"
    b"trailer<</Root 1 0 R/Size 6>>\nstartxref\n0\n%%EOF\n"
)


# Encodings that fonts name.
_ENCODINGS = (
    "charmap", "latin-1", "utf-16", "utf-16-be", "utf-16-le", "gbk", "gb2312", "gb18030", "cp950", "cp932", "cp949",
    "big5", "euc-jp", "euc-kr", "shift-jis", "iso2022-jp", "cp1252", "mac-roman",
)  # fmt: skip


def prepare() -> None:
    """Raises ImportError without the package."""
    import pypdf  # noqa: PLC0415

    for encoding in _ENCODINGS:
        codecs.lookup(encoding)
    with contextlib.suppress(ImportError):  # older ones have none
        importlib.import_module("pypdf._codecs.core_font_metrics")
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it warns of every oddity
    pypdf.PdfReader(io.BytesIO(_SMALL)).pages[0].extract_text()


def extracted(request: dict[str, Any], descriptor: int) -> dict[str, Any]:
    """The answer to a request, whatever is in the file."""
    import pypdf  # noqa: PLC0415

    try:
        with mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ) as data:
            document = pypdf.PdfReader(data)  # type: ignore[arg-type] - it reads and seeks
            if document.is_encrypted and not document.decrypt(""):
                return {"error": "source", "message": "it is encrypted, and there is no password for it here."}
            return _text(document, request["pdf"])
    except MemoryError:
        return {"error": "memory", "message": ""}
    except OSError:
        return {"error": "source", "message": "it cannot be read as a PDF here: it needs a file that it may not have."}
    except Exception as problem:  # whatever pypdf meets in a file that is damaged or made to do harm
        said = foreign(str(problem) or type(problem).__name__)
        return {"error": "source", "message": f"it cannot be read as a PDF ({said})."}


def _text(document: Any, wanted: int) -> dict[str, Any]:
    count = len(document.pages)
    if wanted > count:
        return {"error": "source", "message": f"there is no page {wanted:,}: it has {plural(count, 'page')}."}
    parts: list[str] = []
    length = 0
    for number in (wanted,) if wanted else range(1, count + 1):
        text = document.pages[number - 1].extract_text()
        parts += [text if wanted else f"[page {number} of {count}]\n{text}", "" if text.endswith("\n") else "\n"]
        length += len(text)
        if length > _MOST_CHARS:
            parts = ["".join(parts)[:_MOST_CHARS], _CUT]
            break
    return {"text": "".join(parts), "pages": count, "total": 0}
