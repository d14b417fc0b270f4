"""The world of the demo: a day of a shop's payments, the tools that read it, and the script of its model."""

import asyncio
import contextlib
import hashlib
import json
import random
import re
import urllib.request
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Assistant, Reply, ToolCall, ToolResult
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# The model of the demo: its steps are written down, and what it passes on and reports is what the tools answered.
#
# It knows no figure of the day: the error comes from a count over the log, the sum from a query, the advice from a
# search of the crawled pages. `holdall demo --model NAME` lets a real model find its own way instead.


PRICE = Price(1.0, 4.0)  # dollars for a million tokens
WINDOW = 128_000
_NUMBERS = 2  # that the query asks for
_HANDLE = lazy_pattern(r"^handle: (\S+)$", re.MULTILINE)

Call = tuple[str, dict[str, Any]]


def finder() -> ScriptedModel:
    """Of the agent that is asked."""
    return _scripted(_find)


def accountant() -> ScriptedModel:
    """Of the agent that it asks."""
    return _scripted(_sum_up)


def _scripted(step: Callable[[int, Request], list[Call]]) -> ScriptedModel:
    def answer(request: Request) -> Reply:
        turn = sum(isinstance(message, Assistant) for message in request.messages)
        calls = [ToolCall(f"t{turn}.{at}", name, given) for at, (name, given) in enumerate(step(turn, request))]
        return Reply(calls=tuple(calls))

    return ScriptedModel(answer, name="scripted:demo", window=WINDOW, price=PRICE)


def _find(turn: int, request: Request) -> list[Call]:
    match turn:
        case 0:
            says = {"status": "I fetch the log, and crawl the runbook meanwhile."}
            return [("task_status", says), ("fetch_log", {}), ("crawl_runbook", {})]
        case 1:
            asked = {"handle": _handle(request, "fetch_log"), "pattern": r"ERROR .* code (\S+)", "group": True}
            return [("context_grep", asked)]
        case 2:
            code = _code(request)
            task = f"How many orders of the day were refused with the code {code}, and what were they worth in euros?"
            around = {"handle": _handle(request, "fetch_log"), "pattern": f"ERROR .* {code}", "limit": 3}
            spawn = {"agent": "accountant", "task": task, "async": True}
            return [("spawn_agent", spawn), ("context_grep", around)]
        case 3:
            return [("wait_for_tool_output", {"all": True})]
        case 4:
            pages = {"handle": _handle(request, "crawl_runbook"), "pattern": _code(request), "context": 2}
            report = {"handle": _handle(request, "spawn_agent")}
            return [("context_grep", pages), ("context_read", report), ("fetch_log", {})]  # has anything come since?
        case _:
            return [("final_report", {"report": _report(request)})]


def _sum_up(turn: int, request: Request) -> list[Call]:
    code = _first(r"\b([A-Z]+-\d+)\b", request.messages[1].text)
    match turn:
        case 0:
            return [("export_orders", {})]
        case 1:
            sql = f"select count(*) as orders, sum(amount_cents) as cents from t where code = '{code}'"  # noqa: S608
            return [("context_query", {"handle": _handle(request, "export_orders"), "at": "$.orders", "sql": sql})]
        case _:
            orders, cents = (int(found) for found in re.findall(r"\b\d+\b", _last_row(request)))
            return [("final_report", {"report": f"{orders} orders were refused with {code}, {cents / 100:.2f} EUR."})]


def _report(request: Request) -> str:
    code, pages = _code(request), _answers(request, "context_grep")[-1]
    gateway = _first(r"gateway (\S+)", _answers(request, "context_grep")[1])
    cause = _first(rf"Error {code}: ([^\n]+)", pages)
    fix = _first(r"Renew it with: ([^\n]*?) \.", pages)
    sums = _first(r"(\d+ orders were refused with [^\n]*EUR\.)", _answers(request, "context_read")[-1])
    return (
        f"The orders fail with {code} at the gateway {gateway}. {sums}\n"
        f"The runbook has it: {cause.rstrip('.,')}.\n"
        f"To do: {fix}"
    )


def _answers(request: Request, tool: str) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, ToolResult) and message.name == tool]


def _handle(request: Request, tool: str) -> str:
    """The handle that stands in place of what this tool gave."""
    return next((found[1] for text in _answers(request, tool) if (found := _HANDLE.search(text))), "")


def _code(request: Request) -> str:
    """The error that the count names first: the most frequent one."""
    return _first(r"\b([A-Z]+-\d+)\b", _answers(request, "context_grep")[0])


def _last_row(request: Request) -> str:
    """The numbers of the only row that a query gave."""
    lines = _answers(request, "context_query")[-1].splitlines()
    # Not a fence: its tag has digits too.
    rows = [line for line in lines if not line.startswith("<") and len(re.findall(r"\b\d+\b", line)) == _NUMBERS]
    return rows[-1] if rows else "0 0"


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "?"


# The world of the demo: a day of a shop's payments, made again each time and always the same.
#
# A log of ten megabytes, an export of all orders as JSON on one line, a runbook of many pages. What went wrong that day
# is in all three of them; `Truth` says what, so that an answer can be checked.


_SEED = 417
_LOG_BYTES = 10 * 1024 * 1024
_ORDERS = 36_000
_CODE, _RARE = "PAY-417", (("PAY-102", 7), ("PAY-230", 3), ("PAY-555", 1))
_HITS = 41
_COUNTRIES = ("AT", "CZ", "DE", "DK", "FR", "IT", "NL", "PL", "SE")
_TOPICS = ("cards", "wallets", "refunds", "gateways", "ledger", "alerts")
_FIX = "payctl rotate-cert eu-2"
PAGES = 1 + len(_TOPICS) * 7


@record
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


@record
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


# The tools of the demo: they read files and crawl a site, as anybody's tools do. They know nothing of Holdall.
#
# The site is served by the demo itself, on a loopback address, and each of its pages takes its time.


_CRAWL_SECONDS = 3.0
_TAGS = lazy_pattern(r"<[^>]+>")
_LINKS = lazy_pattern(r'href="([^"]+)"')
_SENTENCE = lazy_pattern(r"(?<=[.:]) (?=[A-Z])")


_SINCE = """\
2026-11-15T00:00:00.412 payments-3 INFO  gateway eu-2 has a new certificate
2026-11-15T00:00:01.871 payments-1 INFO  order o-00417 accepted gateway eu-2
"""  # what the log has more when it is fetched again


class Tools:
    """`returned` has the sha256 of all that each of them has given, so that what was kept can be compared with it."""

    def __init__(self, shop: Shop, site: str) -> None:
        self._shop = shop
        self._site = site
        self.returned: dict[str, set[str]] = {}

    def fetch_log(self) -> str:
        """Fetch the log of the payment service for the day, whole: what it did, line by line."""
        since = _SINCE if "fetch_log" in self.returned else ""
        return self._noted("fetch_log", self._shop.log.read_text("utf-8") + since)

    def export_orders(self) -> str:
        """Export every order of the day as JSON: id, customer, country, amount in cents, state, error code."""
        return self._noted("export_orders", self._shop.orders.read_text("utf-8"))

    def crawl_runbook(self, writer: Any) -> None:
        """Crawl the runbook of the payment service and return the text of its pages. This takes a while."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the site is on this machine
        waiting, seen, digest = [f"{self._site}/"], set[str](), hashlib.sha256()
        while waiting:
            url = waiting.pop(0)
            if url in seen:
                continue
            seen.add(url)
            with opener.open(url, timeout=30) as answer:
                page = answer.read().decode("utf-8")
            text = _SENTENCE.sub("\n", _TAGS.sub(" ", page))
            part = f"== {url.removeprefix(self._site)}\n{text.strip()}\n"
            writer.write(part)
            digest.update(part.encode())
            waiting += [urljoin(url, link) for link in _LINKS.findall(page)]
        self.returned["crawl_runbook"] = {digest.hexdigest()}

    def _noted(self, tool: str, text: str) -> str:
        self.returned.setdefault(tool, set()).add(hashlib.sha256(text.encode()).hexdigest())
        return text


@contextlib.asynccontextmanager
async def served(pages: dict[str, str]) -> AsyncGenerator[str]:
    """A site with these pages; its address."""
    server = await asyncio.start_server(_answering(pages), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


def _answering(pages: dict[str, str]) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            await asyncio.sleep(_CRAWL_SECONDS / PAGES)
            page = pages.get([*head.split(" ", 2), ""][1])
            body = (page or "There is no such page.").encode()
            status = "200 OK" if page is not None else "404 Not Found"
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()

    return answer
