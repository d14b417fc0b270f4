"""The viewer as an application: every page, the files beside them, what is shown where something is not there."""

import contextlib
import logging
from collections.abc import AsyncGenerator

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from holdall.text.escape import one_line
from holdall.values.errors import HoldallError, NothingFound, StoreFault, UnknownHandle
from holdall.values.settings import Settings
from holdall.web import output_pages, pages_sessions, pages_timeline
from holdall.web.guard import Door, Guard, hosts_of
from holdall.web.house import House, house_of, render

_LOG = logging.getLogger("holdall.web")


def create_app(home: str, token: str, host: str, port: int, *, settings: Settings | None = None) -> Starlette:
    """For one store, at one address; `token` lets in."""
    door = Door(hosts_of(host, port), token, f"holdall-view-{port}")  # cookies know no ports: one for each viewer
    house = House(home, settings or Settings())

    @contextlib.asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            await house.close()

    app = Starlette(
        routes=[
            *pages_sessions.routes,
            *pages_timeline.routes,
            *output_pages.routes,
            Route("/static/{name:path}", _static, name="static"),
        ],
        middleware=[Middleware(Guard, door=door)],
        exception_handlers={HTTPException: _no_page, HoldallError: _trouble},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    app.state.house, app.state.door = house, door
    return app


async def _static(request: Request) -> Response:
    found = house_of(request).static(request.path_params["name"])
    if found is None:
        raise HTTPException(404)
    return Response(found.body, media_type=found.type)


async def _no_page(request: Request, problem: Exception) -> Response:
    status = problem.status_code if isinstance(problem, HTTPException) else 500
    return render(request, "trouble.html", status=status, what="There is no such page.")


async def _trouble(request: Request, problem: Exception) -> Response:
    """What the store says is for people already. A request that is not carried out is no fault of ours."""
    if isinstance(problem, NothingFound | UnknownHandle):
        return render(request, "trouble.html", status=404, what=str(problem))
    is_fault = isinstance(problem, StoreFault)
    if is_fault:
        _LOG.warning("%s: %s", one_line(request.url.path), one_line(str(problem), 300))
    return render(request, "trouble.html", status=500 if is_fault else 400, what=str(problem))
