"""Holdall, an open session: tool outputs in, notices and parts of outputs out."""

from holdall.bag.care import Care
from holdall.bag.holdall import Holdall
from holdall.bag.run import Command
from holdall.bag.turn import Pending, Turn

__all__ = ["Care", "Command", "Holdall", "Pending", "Turn"]
