"""The one object, and the care of the store that it lives in."""

from holdall.bag.care import Care
from holdall.bag.holdall import Holdall

__all__ = ["Care", "Holdall"]
