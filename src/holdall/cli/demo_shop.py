"""The world of the demo: a day of a shop's payments, made anew each time and always the same.

A log of ten megabytes, an export of all orders as JSON on one line, a runbook of many pages. What went wrong that day
stands in all three of them; `Truth` says what, so that an answer can be checked.
"""

import json
import random
import re
from dataclasses import dataclass
from pathlib import Path

_SEED = 417
_LOG_BYTES = 10 * 1024 * 1024
_ORDERS = 36_000
_CODE, _RARE = "PAY-417", (("PAY-102", 7), ("PAY-230", 3), ("PAY-555", 1))
_HITS = 41
_COUNTRIES = ("AT", "CZ", "DE", "DK", "FR", "IT", "NL", "PL", "SE")
_TOPICS = ("cards", "wallets", "refunds", "gateways", "ledger", "alerts")
_FIX = "payctl rotate-cert eu-2"
PAGES = 1 + len(_TOPICS) * 7


@dataclass(frozen=True, slots=True)
class Truth:
    """What a right answer names."""

    code: str
    orders: int
    euros: str
    fix: str

    def found_in(self, report: str) -> dict[str, bool]:
        plain = report.replace(",", "")
        return {
            "the error": self.code in plain,
            "how many orders": re.search(rf"\b{self.orders}\b", plain) is not None,
            "what they were worth": self.euros in plain,
            "what to do": self.fix in report,
        }


@dataclass(frozen=True, slots=True)
class Shop:
    log: Path
    orders: Path
    pages: dict[str, str]
    truth: Truth


def made(folder: Path) -> Shop:
    """The files of the day, in `folder`."""
    chance = random.Random(_SEED)  # noqa: S311 - it should be the same each time
    refused = _refused(chance)
    shop = Shop(folder / "payments.log", folder / "orders.json", _pages(), _truth(refused))
    shop.log.write_text(_log(chance, refused), "utf-8")
    shop.orders.write_text(_export(chance, refused), "utf-8")
    return shop


def _refused(chance: random.Random) -> dict[int, tuple[str, int]]:
    """The orders that were refused: why, and what each was worth in cents."""
    numbers = iter(chance.sample(range(_ORDERS), _HITS + sum(count for _, count in _RARE)))
    codes = [_CODE] * _HITS + [code for code, count in _RARE for _ in range(count)]
    return {next(numbers): (code, chance.randrange(500, 40_000)) for code in codes}


def _truth(refused: dict[int, tuple[str, int]]) -> Truth:
    cents = sum(worth for code, worth in refused.values() if code == _CODE)
    return Truth(_CODE, _HITS, f"{cents / 100:.2f}", _FIX)


def _log(chance: random.Random, refused: dict[int, tuple[str, int]]) -> str:
    lines: list[str] = []
    size, bits = 0, chance.getrandbits
    while size < _LOG_BYTES:
        drawn = bits(64)
        lines.append(
            f"payments-{drawn & 7} INFO  request {drawn >> 32:08x} POST /v2/charge 200 in {20 + (drawn >> 8 & 255)} ms "
            f"order o-{(drawn >> 16) % _ORDERS:05} gateway {('eu-1', 'eu-2', 'us-1')[drawn % 3]}"
        )
        size += len(lines[-1]) + 25  # with the time before it
    for number, (code, _) in refused.items():
        gateway = "eu-2" if code == _CODE else "eu-1"
        at = chance.randrange(len(lines))
        lines[at] = f"payments-{number % 8} ERROR order o-{number:05} refused: code {code} gateway {gateway}"
    step = 86_399.0 / len(lines)
    return "".join(f"{_time(at * step)} {line}\n" for at, line in enumerate(lines))


def _time(second: float) -> str:
    whole = int(second)
    return f"2026-11-14T{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}.{int(second % 1 * 1000):03}"


def _export(chance: random.Random, refused: dict[int, tuple[str, int]]) -> str:
    orders: list[dict[str, object]] = []
    for number in range(_ORDERS):
        drawn = chance.getrandbits(48)
        code, cents = refused.get(number, ("", 500 + drawn % 39_500))
        orders.append({
            "id": f"o-{number:05}", "customer": f"c-{drawn >> 28:06}", "country": _COUNTRIES[drawn % len(_COUNTRIES)],
            "amount_cents": cents, "state": "refused" if code else "paid", "code": code or None,
        })  # fmt: skip
    return json.dumps({"exported": "2026-11-15T00:00:00", "currency": "EUR", "orders": orders}, separators=(",", ":"))


def _pages() -> dict[str, str]:
    """The runbook, by path: a page of links, a page for each topic, and six below each."""
    pages = {"/": _page("The payments runbook", "Choose a topic.", [f"/{topic}" for topic in _TOPICS])}
    for topic in _TOPICS:
        below = [f"/{topic}/{number}" for number in range(1, 7)]
        pages[f"/{topic}"] = _page(f"All about {topic}", f"What we know of {topic}.", below)
        for path in below:
            pages[path] = _page(f"{topic}, part {path[-1]}", _advice(topic, path), [])
    return pages


def _advice(topic: str, path: str) -> str:
    usual = " ".join(
        f"Step {step}: look at the {topic} panel, compare the rate of the last {step * 5} minutes with that of last "
        "week, and write down what you see before you change anything."
        for step in range(1, 25)
    )
    if path != "/gateways/4":
        return usual
    return (
        f"{usual} Error {_CODE}: the certificate of the gateway eu-2 has expired, and card networks refuse its "
        f"requests. Renew it with: {_FIX} . Refused orders are charged again by themselves within the hour."
    )


def _page(title: str, text: str, links: list[str]) -> str:
    listed = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f"<html><head><title>{title}</title></head><body><h1>{title}</h1><p>{text}</p><ul>{listed}</ul></body></html>"
    )
