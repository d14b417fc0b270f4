"""A server made with FastMCP, whose client makes types of its schemas: values, objects, and both too large to show."""

import datetime
from dataclasses import dataclass

from fastmcp import FastMCP

SERVER: FastMCP[None] = FastMCP("typed")


@dataclass
class Day:
    name: str
    date: datetime.date


DAY = Day("first", datetime.date(2026, 1, 1))


@SERVER.tool
def add(a: int, b: int) -> int:
    return a + b


@SERVER.tool
def table() -> dict[str, int]:
    return {"a": 1}


@SERVER.tool
def day() -> Day:
    return DAY


@SERVER.tool
def days(count: int) -> list[Day]:
    return [DAY] * count


@SERVER.tool
def long_day(count: int) -> Day:
    return Day("long " * count, DAY.date)


if __name__ == "__main__":
    SERVER.run(show_banner=False, log_level="ERROR")
