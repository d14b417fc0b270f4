"""The tools of the demo: they read files and crawl a site, as anybody's tools do. They know nothing of Holdall.

The site is served by the demo itself, on a loopback address, and each of its pages takes its time.
"""

import asyncio
import contextlib
import hashlib
import re
import urllib.request
from collections.abc import AsyncGenerator, Callable
from typing import Annotated, Any
from urllib.parse import urljoin

from holdall.cli.demo_shop import PAGES, Shop

_CRAWL_SECONDS = 3.0
_TAGS = re.compile(r"<[^>]+>")
_LINKS = re.compile(r'href="([^"]+)"')
_SENTENCE = re.compile(r"(?<=[.:]) (?=[A-Z])")


class Tools:
    """`returned` has the sha256 of all that each of them has given, so that what was kept can be compared with it."""

    def __init__(self, shop: Shop, site: str) -> None:
        self._shop = shop
        self._site = site
        self.returned: dict[str, str] = {}

    def fetch_log(self) -> str:
        """Fetch the log of the payment service for the day, whole: what it did, line by line."""
        return self._noted("fetch_log", self._shop.log.read_text("utf-8"))

    def export_orders(self) -> str:
        """Export every order of the day as JSON: id, customer, country, amount in cents, state, error code."""
        return self._noted("export_orders", self._shop.orders.read_text("utf-8"))

    def crawl_runbook(self, writer: Any, most_pages: Annotated[int, "no more than these"] = 1000) -> None:
        """Crawl the runbook of the payment service and return the text of its pages. This takes a while."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the site is on this machine
        waiting, seen, digest = [f"{self._site}/"], set[str](), hashlib.sha256()
        while waiting and len(seen) < most_pages:
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
        self.returned["crawl_runbook"] = digest.hexdigest()

    def _noted(self, tool: str, text: str) -> str:
        self.returned[tool] = hashlib.sha256(text.encode()).hexdigest()
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
