"""Holdall, an open session: tool outputs in, notices and parts of outputs out."""

from holdall.bag.care import Care
from holdall.bag.fetch import Fetch
from holdall.bag.holdall import Holdall, Preview
from holdall.bag.messages import Messages
from holdall.bag.records import Records
from holdall.bag.run import Command
from holdall.bag.turn import Pending, Turn
from holdall.bag.waits import Background

__all__ = ["Background", "Care", "Command", "Fetch", "Holdall", "Messages", "Pending", "Preview", "Records", "Turn"]
