"""`python -m tests.golden.update [FILE…]`: write into `data/` what the program does now.

The store, the bundle and what was read of them are never written by this.
"""

import os
import sys
from pathlib import Path

import pytest

from tests.golden.golden import VARIABLE


def main() -> int:
    os.environ[VARIABLE] = "1"
    here = Path(__file__).parent
    chosen = [str(here / name) for name in sys.argv[1:]] or [str(here)]
    return int(pytest.main(["-q", *chosen]))


if __name__ == "__main__":
    sys.exit(main())
