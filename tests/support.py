"""What many tests need: an open output made from bytes, without a store around it; and how much work something is."""

import gc
import hashlib
import os
import re
import tempfile
import time
from collections.abc import Callable
from typing import TypeVar

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


_Result = TypeVar("_Result")
_WORDS = "the quick brown fox jumps over the lazy dog 0123456789 " * 800
_TRIES = 5  # what is too much is so each time; a machine that others use, now and then


def _unit() -> None:
    seen = dict[str, int]()
    for word in re.findall(r"\w+", _WORDS):
        seen[word] = seen.get(word, 0) + len(word)
    sum(number * number for number in range(40_000))


def _processor(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before


def in_effort(most: float, work: Callable[[], _Result]) -> _Result:
    """What `work` returns, if it is done with the effort of at most so many units: a fixed piece of work, a hundredth of
    a second on a quiet machine, that is done before and after it. Seconds would tell how busy the machine is.
    """
    spent, found = list[float](), list[_Result]()
    gc.collect()
    gc.freeze()  # what the tests before have left is not to be looked through
    while len(spent) < _TRIES and (not spent or spent[-1] > most):
        before = _processor(_unit)
        own = _processor(lambda: found.append(work()))
        spent.append(own / max(before, _processor(_unit)))
    assert spent[-1] <= most, f"it is the work of {min(spent):.0f} units, at most {most} are allowed"
    return found[-1]
