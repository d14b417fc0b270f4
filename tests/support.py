"""What many tests need: an open output made from bytes, without a store around it."""

import hashlib
import os
import tempfile

from holdall.policy.measure import Measurer
from holdall.store.reader import FileReader
from holdall.text.tokens import Estimate, Tokenizer
from holdall.values.outputs import Facts


class _Reader(FileReader):
    """Closes itself when no test has it any more: thousands are made in a run."""

    def __del__(self) -> None:
        self.close()


def reader_of(data: bytes, *, handle: str = "t3st", tokenizer: Tokenizer | None = None) -> FileReader:
    """A reader over `data` in a file that has no name any more."""
    measurer = Measurer(tokenizer or Estimate())
    measurer.feed(data)
    measure, table = measurer.finish(hashlib.sha256(data).hexdigest())
    descriptor, path = tempfile.mkstemp()
    os.unlink(path)
    os.pwrite(descriptor, data, 0)
    facts = Facts(handle=handle, id="0" * 36, session="0" * 36, created=0.0, measure=measure)
    return _Reader(descriptor, facts, table)
