"""The outline of an output: what is in it, and what is rare in it."""

from holdall.text.outline.choose import outline
from holdall.text.outline.model import Lead, Outline, Room

__all__ = ["Lead", "Outline", "Room", "outline"]
