"""Pytest rewrites the asserts of a test file and keeps what it made beside the file, for the next run.

On a fresh checkout nothing is kept yet, and every worker of a run would do it for itself, at the same time: half of what
it takes them to find the tests. So the process that starts them does it before.
"""
# pyright: reportPrivateUsage=false
# There is no public way to it.

from itertools import chain
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

FOLDER = Path(__file__).parent


def rewrite_all(config: pytest.Config, folder: Path = FOLDER) -> int:
    """How many files there were to rewrite."""
    done = 0
    for file in chain(folder.rglob("test_*.py"), folder.rglob("conftest.py")):
        kept = rewrite.get_cache_dir(file) / (file.stem + rewrite.PYC_TAIL)
        if rewrite._read_pyc(file, kept) is None and rewrite.try_makedirs(kept.parent):
            source_hash, code = rewrite._rewrite_test(file, config)
            done += rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, kept)
    return done
