"""Outputs for the tests of the bag, and bags that need no folder of the user's."""

from pathlib import Path
from typing import Any

from holdall import Holdall, Settings

LOG = "".join(f"2026-01-01 00:00:{n % 60:02} {'ERROR' if n % 500 == 3 else 'INFO'} job {n}\n" for n in range(5000))
SMALL = "all is well\n"


def opened(folder: Path, **options: Any) -> Holdall:
    """A bag in a folder of the test's own; `settings` may be given by their names."""
    options = {"slow_after_seconds": 60.0} | options  # a busy machine must not make a call slow
    known = Settings.__dataclass_fields__.keys() - {"model"}  # that word is the argument of `open`
    settings = Settings(**{name: options.pop(name) for name in list(options) if name in known})
    return Holdall.open(home=str(folder / "home"), session="s1", settings=settings, **options)
