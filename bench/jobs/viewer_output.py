"""The page of one output: a gigabyte beside a megabyte, until its first rows are there, and after a jump to its middle.

In a real browser where there is one; else over HTTP, with the requests that the page makes.
"""

import contextlib
import http.client
import json
import shutil
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import Any, cast

from bench.lab import MB, Lab, file_of, holdall_command
from bench.result import Gate, Measured, Row
from bench.rounds import MANY, compare, timed
from holdall.store.directory.store import DirectoryStore

_GATE = Gate(1.5)
_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run",
]  # fmt: skip
Look = Callable[[str], Awaitable[None]]


async def output(lab: Lab) -> Measured:
    """The same page twice: `small` is the floor."""
    async with lab.kept(lab.log()) as (bag, facts):
        with file_of(lab.log()) as source:
            small = await bag.keep(source.read(MB))
        addresses = {name: f"/s/{bag.session.id}/o/{one.handle}" for name, one in (("large", facts), ("small", small))}
        size = f"{facts.measure.bytes / MB:,.0f} MB"
        with _viewer(cast("DirectoryStore", bag.store).home) as (port, token):
            async with _looks(port, token) as (how, first, jump):
                rows = [
                    await _row(lab, f"first rows of {size}, {how}", first, addresses),
                    await _row(lab, f"the same, and its middle, {how}", jump, addresses),
                ]
    return Measured(rows)


async def _row(lab: Lab, case: str, look: Look, addresses: dict[str, str]) -> Row:
    contestants = {name: timed(lambda address=address: look(address)) for name, address in addresses.items()}
    found = await compare(
        contestants, rounds=lab.sizes.rounds * MANY if lab.sizes.rounds > 1 else 1, patience=lab.patience
    )
    return Row("output", case, found.median("large"), "ms", found.median("small"), _GATE, others=found.others)


@contextlib.asynccontextmanager
async def _looks(port: int, token: str) -> AsyncGenerator[tuple[str, Look, Look]]:
    """How it is looked at, and two looks: at the first rows, and from there at the middle."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        yield "over HTTP", *_over_http(port, token)
        return
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        page = await browser.new_page(viewport={"width": 1280, "height": 900})
        base = f"http://127.0.0.1:{port}"
        await page.goto(f"{base}/?token={token}")
        base = page.url.rstrip("/")  # pages are below a path of this start

        async def first(address: str) -> None:
            await page.goto(f"{base}{address}", wait_until="commit")
            await page.locator("[data-part=text] .row .text").first.wait_for()

        async def middle(address: str) -> None:
            await first(address)
            await page.fill("[name=to]", "50%")
            await page.press("[name=to]", "Enter")
            await page.locator("mark.landed").first.wait_for()

        yield "in a browser", first, middle
        await browser.close()


def _over_http(port: int, token: str) -> tuple[Look, Look]:
    def get(path: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise AssertionError(f"{path} was answered with {answer.status}")
        return json.loads(body) if answer.headers["content-type"] == "application/json" else None

    async def first(address: str) -> None:
        get(address)
        get(f"{address}/rows?by=lines&from=1&count=100")

    async def middle(address: str) -> None:
        await first(address)
        total = get(f"{address}/rows?by=lines&from=1&count=1")["total"]
        line = get(f"{address}/place?byte={total['bytes'] // 2}")["line"]
        if not get(f"{address}/rows?by=lines&from={line}&count=100")["rows"]:
            raise AssertionError("there is nothing in the middle")

    return first, middle


@contextlib.contextmanager
def _viewer(home: str) -> Generator[tuple[int, str]]:
    command = [*holdall_command(), "view", "--no-open", "--home", home]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield int(address.partition("/?")[0].rpartition(":")[2]), address.partition("token=")[2]
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()
