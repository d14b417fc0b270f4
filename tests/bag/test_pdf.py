"""The text of a PDF by page: read like an output, in the confined process, whatever the file is made of."""

import contextlib
import io
import random
import zlib
from collections.abc import Iterator
from pathlib import Path

import pypdf
import pytest

from holdall import Kept
from holdall.formats import pdf as formats_pdf
from holdall.formats.outline import Room, take
from holdall.sql.pdf import pages_of
from holdall.sql.worker import SqlWorker
from holdall.values.errors import BadMember, MissingExtra, WorkerFault
from tests.bag.shapes import opened
from tests.packed import pdf, reading, zipped
from tests.requirements import requirement
from tests.support import in_effort, reader_of

PAGES = [f"Chapter {number}\nThe answer of page {number} is {number * 7}." for number in range(1, 41)]
PDF = pdf(*PAGES)


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


def compressed(data: bytes) -> bytes:
    """As programs of today write it: the tree of pages is inside of compressed streams."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(data))
    writer.add_metadata({"/Title": "x"})
    for page in writer.pages:
        page.compress_content_streams()
    made = io.BytesIO()
    writer.write(made)
    return made.getvalue()


@requirement("packed:pdf", "measure:kind-columnar")
@pytest.mark.anyio
async def test_the_pages_of_a_pdf_are_read_one_by_one_and_together(tmp_path: Path) -> None:
    async with opened(tmp_path, max_inline_bytes=100) as bag:
        for data in (PDF, compressed(PDF)):
            taken = await bag.take(data, tool="fetch")
            assert isinstance(taken, Kept)
            assert "40 pages as it says itself" in taken.content
            assert f'Next: context_read(handle="{taken.handle}!page-1", bytes="0:800")' in taken.content
            assert (await bag.read(f"{taken.handle}!page-3")).text == f"{PAGES[2]}\n"
            whole = await bag.read(f"{taken.handle}!", bounded=False)
            assert whole.text == "".join(f"[page {at} of 40]\n{text}\n" for at, text in enumerate(PAGES, start=1))
            assert (await bag.grep(f"{taken.handle}!", "is 77")).matches[0].line == 33
            assert bag.journal.coverage(taken.handle).ranges["scanned"].bytes() == len(data)
        packed = await bag.keep(zipped({"a.pdf": PDF}))
        assert (await bag.read(f"{packed.handle}!a.pdf!page-40")).text == f"{PAGES[-1]}\n"
        for wanted, why in (
            ("page-41", "it has 40 pages"),
            ("page-0", "a PDF has pages"),
            ("intro", "a PDF has pages"),
        ):
            with pytest.raises(BadMember, match=why):
                await bag.read(f"{taken.handle}!{wanted}")


@requirement("packed:extra")
def test_without_the_package_its_name_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(_: str) -> None:
        return None

    monkeypatch.setattr(formats_pdf.importlib.util, "find_spec", nowhere)
    found = formats_pdf.pdf_outline(take(reading(PDF), len(PDF), 1), Room(400))
    assert "pip install 'holdall[pdf]'" in found.lines[0]
    assert not found.leads

    class Without(SqlWorker):
        def ask(self, *_: object, **__: object) -> dict[str, object]:
            return {"error": "missing", "message": "No module named 'pypdf'"}

    with pytest.raises(MissingExtra, match=r"holdall\[pdf\]"):
        list(pages_of(reader_of(PDF), "page-1", Without(), 5.0))


def bomb() -> bytes:
    """A page whose content unpacks to a gigabyte of spaces."""
    content = zlib.compress(zlib.compress(b" " * 30_000_000) * 30)
    stream = b"<< /Length %d /Filter [/FlateDecode /FlateDecode] >>\nstream\n%s\nendstream" % (len(content), content)
    head, _, rest = pdf("x").partition(b"4 0 obj\n")
    return head + b"4 0 obj\n" + stream + b"\nendobj\n" + rest.partition(b"endobj\n")[2]


HOSTILE = {
    "a tree that is its own child": PDF.replace(b"/Kids [3 0 R", b"/Kids [2 0 R"),
    "a page tree of itself": PDF.replace(b"/Type /Page /Parent 2 0 R", b"/Type /Pages /Kids [2 0 R] /Parent 2 0 R"),
    "contents of itself": PDF.replace(b"/Contents 4 0 R", b"/Contents 3 0 R"),
    "a bomb": b"",  # made when it is needed
    "no end": PDF[: len(PDF) // 2] + b"%%EOF",
    "nothing": b"%PDF-1.4\n%%EOF",
}


@requirement("packed:pdf-hostile")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_pdf_made_to_do_harm_ends_nothing_but_its_call(name: str, worker: SqlWorker) -> None:
    data = HOSTILE[name] or bomb()
    with contextlib.suppress(BadMember, WorkerFault):
        assert len(b"".join(pages_of(reader_of(data), "", worker, 8.0))) < 20_000_000
    assert b"Chapter 2" in b"".join(pages_of(reader_of(PDF), "page-2", worker, 60.0))


@requirement("packed:pdf-hostile")
def test_damaged_pdfs_are_read_or_refused(worker: SqlWorker) -> None:
    chance = random.Random(3)
    for _ in range(12):
        broken = bytearray(PDF)
        for _ in range(40):
            broken[chance.randrange(9, len(broken) - 6)] = chance.randrange(256)
        formats_pdf.pdf_outline(take(reading(bytes(broken)), len(broken), 1), Room(400))
        with contextlib.suppress(BadMember, WorkerFault):
            list(pages_of(reader_of(bytes(broken)), "page-1", worker, 8.0))


@pytest.mark.parametrize("part", [b"/Type/Pages", b"/Type/ObjStm>>stream\n"])
def test_a_file_that_repeats_what_is_looked_for_takes_no_longer(part: bytes) -> None:
    data = b"%PDF-1.4\n" + part * (1_000_000 // len(part)) + b"\n%%EOF\n"
    # Where each is looked at: 7,000
    outline = in_effort(100, lambda: formats_pdf.pdf_outline(take(reading(data), len(data), 1), Room(400)))
    assert outline.label == "PDF"
