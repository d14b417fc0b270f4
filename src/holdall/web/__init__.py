"""The viewer: sessions and outputs of one store in a browser, read only, on this machine.

`server` puts it together; `pages` and `output_page` have the pages and export their routes. A page asks the bag, and
nothing behind it. Everything that comes from a tool is text: no template marks anything as safe, and `access` sets
headers that allow only our own scripts and styles. It needs the extra `view`.
"""

from holdall.values.errors import MissingExtra

try:
    import jinja2
    import starlette
    import uvicorn
except ModuleNotFoundError as problem:
    raise MissingExtra(problem.name or "starlette", "view", "the viewer") from problem
del jinja2, starlette, uvicorn  # asked for here, once for all of the modules beside
