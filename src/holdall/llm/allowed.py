"""Whether real models may be called here. Every implementation that costs money, a key or a processor asks this first.

Tests set the variable for all of their processes, so that none of them reaches a provider by accident.
"""

import os

from holdall.values.errors import RealCallsOff

VARIABLE = "HOLDALL_REAL_MODELS"
_OFF = ("off", "no", "false", "0")


def real_calls_allowed() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() not in _OFF


def must_be_allowed(model: str) -> None:
    if not real_calls_allowed():
        raise RealCallsOff(model)
