"""The outline of an output: what is in it, and what is rare in it."""

from holdall.formats.outline import Lead, Outline, Room
from holdall.formats.registry import outline

__all__ = ["Lead", "Outline", "Room", "outline"]
