"""What all pages share: the open sessions, the templates, the files beside them.

A page gets at a session by `state_of(request).session(id)`, and answers with `render`. Every text that a template
shows is escaped for HTML, and characters that could hide or reorder what a person reads are shown as escapes.
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import field
from pathlib import Path
from typing import Any, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from holdall.bag import Holdall
from holdall.bag.holdall import open_read_only
from holdall.bag.overview import Overview
from holdall.text.escape import for_people
from holdall.values.record import record
from holdall.values.settings import Settings
from holdall.web import figures

_HERE = Path(__file__).parent
_MAX_OPEN = 8  # sessions at once; each holds a few descriptors
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@record(frozen=False)
class _Open:
    bag: "asyncio.Task[Holdall]"
    users: int = 0

    @property
    def failed(self) -> bool:
        return self.bag.done() and (self.bag.cancelled() or self.bag.exception() is not None)


@record
class StaticFile:
    body: bytes
    type: str


@record(frozen=False)
class ViewerState:
    """One for each application. Used from one event loop."""

    home: str
    settings: Settings = field(default_factory=Settings)
    overview: Overview = field(init=False)
    _open: "OrderedDict[str, _Open]" = field(default_factory=OrderedDict[str, _Open])
    _files: dict[str, StaticFile] = field(default_factory=dict[str, StaticFile])
    _templates: Environment | None = None

    def __post_init__(self) -> None:
        self.overview = Overview(self.home, self.settings)
        self._files = _static_files()
        self._templates = _environment()

    @contextlib.asynccontextmanager
    async def session(self, id: str) -> AsyncGenerator[Holdall]:
        """The session with this id, open while the block runs and usually longer. NothingFound if there is none."""
        entry = self._open.get(id)
        if entry is None:
            task = asyncio.ensure_future(asyncio.to_thread(open_read_only, id, home=self.home, settings=self.settings))
            entry = self._open[id] = _Open(task)
        self._open.move_to_end(id)
        entry.users += 1
        try:
            yield await asyncio.shield(entry.bag)
        finally:
            entry.users -= 1
            if entry.failed and self._open.get(id) is entry:  # the next request tries again
                del self._open[id]
            await self._close_some()

    def prepare(self) -> None:
        """What the first page would have to wait for: the templates, and the names of all sessions. It blocks."""
        templates = cast("Environment", self._templates)
        for name in templates.list_templates(["html"]):
            templates.get_template(name)
        self.overview.page(seconds=-1.0)

    async def close(self) -> None:
        while self._open:
            _, entry = self._open.popitem()
            await _closed(entry)
        await asyncio.to_thread(self.overview.close)

    def static(self, name: str) -> StaticFile | None:
        """A file by its exact name below `static/`; there are no others."""
        return self._files.get(name)

    def rendered(self, template: str, values: dict[str, Any]) -> str:
        return cast("Environment", self._templates).get_template(template).render(values)

    async def _close_some(self) -> None:
        idle = [id for id, entry in self._open.items() if not entry.users]
        for id in idle[: max(0, len(self._open) - _MAX_OPEN)]:
            await _closed(self._open.pop(id))


def state_of(request: Request) -> ViewerState:
    return cast("ViewerState", request.app.state.viewer)


def render(
    request: Request, template: str, *, status: int = 200, headers: dict[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """A page or a fragment of one. Templates see these values, and as `prefix` what their addresses begin with."""
    scope = request.scope
    ours = {"prefix": scope["root_path"], "mark": scope["mark"], "nonce": scope["nonce"]}
    page = state_of(request).rendered(template, {**values, **ours})
    return HTMLResponse(page, status, headers)


async def _closed(entry: _Open) -> None:
    with contextlib.suppress(Exception):
        await (await entry.bag).close()


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"), autoescape=True, undefined=StrictUndefined, finalize=_shown,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= figures.FILTERS
    return made


def _shown(value: object) -> object:
    """Jinja hands every value to this that a template shows. What a template has made itself is markup, and says so."""
    return for_people(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _static_files() -> dict[str, StaticFile]:
    found: dict[str, StaticFile] = {}
    folder = _HERE / "static"
    for path in sorted(folder.rglob("*")):
        if path.suffix in _TYPES and path.is_file():
            found[path.relative_to(folder).as_posix()] = StaticFile(path.read_bytes(), _TYPES[path.suffix])
    return found
