"""The small programs that make four of the outputs: plain text here, run by the interpreter of the recipes.

Each does real work on Python's own standard library or on a loopback connection; none invents a line of its output.
"""

# Parses every module of the standard library, and logs what it finds with structlog as JSON lines.
PARSE_AND_LOG = r"""
import ast, pathlib, sys, time, warnings
import structlog
structlog.configure(processors=[
    structlog.processors.add_log_level, structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info, structlog.processors.JSONRenderer(),
])
root = pathlib.Path(sys.argv[1])
log = structlog.get_logger().bind(job="parse")
files = sorted(p for p in root.rglob("*.py") if "site-packages" not in p.parts)
log.info("started", files=len(files))
bad = 0
for path in files:
    name = str(path.relative_to(root))
    source = path.read_bytes()
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            tree = ast.parse(source)
        except (SyntaxError, ValueError, RecursionError) as error:
            bad += 1
            log.error("rejected", file=name, size=len(source), reason=str(error), line=getattr(error, "lineno", None))
            continue
    kinds = [type(node).__name__ for node in ast.walk(tree)]
    log.info("parsed", file=name, size=len(source), nodes=len(kinds), functions=kinds.count("FunctionDef"),
        coroutines=kinds.count("AsyncFunctionDef"), classes=kinds.count("ClassDef"),
        elapsed_ms=round((time.perf_counter() - begun) * 1000, 3))
    for warning in caught:
        log.warning("complaint", file=name, line=warning.lineno, kind=warning.category.__name__,
            text=str(warning.message))
log.info("finished", files=len(files), rejected=bad)
"""

# Instruments the same kind of work with the Prometheus client, and prints what its HTTP endpoint serves.
EXPORT_METRICS = r"""
import pathlib, sys, time, tokenize, urllib.request
from prometheus_client import Counter, Gauge, Histogram, Summary, start_http_server
root = pathlib.Path(sys.argv[1])
tokens = Counter("source_tokens", "Tokens read, by package and by kind of token.", ["package", "kind"])
size = Gauge("source_size_bytes", "Size of all sources of a package.", ["package"])
largest = Gauge("source_largest_file_bytes", "Size of the largest source of a package.", ["package"])
failures = Counter("source_failures", "Sources that could not be read.", ["package", "exception"])
seconds = Histogram("source_read_seconds", "Time to read one source.", ["package"], buckets=(.001, .005, .02, .1, .5))
lines = Summary("source_lines", "Lines of a source.", ["package"])
others = ("site-packages", "__pycache__", "test")
for folder in sorted(p for p in root.iterdir() if p.is_dir() and p.name not in others):
    name, top = folder.name, 0
    for path in sorted(folder.rglob("*.py"))[:40]:
        data = path.read_bytes()
        size.labels(name).inc(len(data))
        top = max(top, len(data))
        lines.labels(name).observe(data.count(b"\n"))
        with seconds.labels(name).time():
            try:
                with path.open("rb") as file:
                    for token in tokenize.tokenize(file.readline):
                        tokens.labels(name, tokenize.tok_name[token.type]).inc()
            except (SyntaxError, tokenize.TokenError) as error:
                failures.labels(name, type(error).__name__).inc()
    largest.labels(name).set(top)
port = int(sys.argv[2])
start_http_server(port, addr="127.0.0.1")
sys.stdout.write(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())
"""

# Serves a folder on loopback with the access log of aiohttp, until it is told to stop.
SERVE = r"""
import logging, sys
from aiohttp import web
logging.basicConfig(stream=open(sys.argv[3], "w"), format="%(message)s", level=logging.INFO)
logging.getLogger("asyncio").setLevel(logging.ERROR)
app = web.Application(client_max_size=1000)
async def upload(request):
    data = await request.read()
    return web.Response(text=str(len(data)), status=201)
async def average(request):
    return web.json_response({"average": sum(map(int, request.query.getall("n"))) / int(request.query["of"])})
app.router.add_post("/upload", upload)
app.router.add_get("/average", average)
app.router.add_static("/lib/", sys.argv[1], show_index=True)
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), print=None,
    access_log=logging.getLogger("access"), access_log_format='%a - - %t "%r" %s %b "%{Referer}i" "%{User-Agent}i" %Tf')
"""

# Fills a database with what the installed distributions record about their files.
RECORD_FILES = r"""
import importlib.metadata, sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.executescript('''
CREATE TABLE distribution (id INTEGER PRIMARY KEY, name TEXT NOT NULL, version TEXT, licence TEXT, summary TEXT);
CREATE TABLE file (id INTEGER PRIMARY KEY, distribution INTEGER, path TEXT, size INTEGER, hash TEXT);
CREATE TABLE requirement (distribution INTEGER REFERENCES distribution, text TEXT NOT NULL);
CREATE INDEX file_path ON file (path);
CREATE VIEW heavy AS SELECT path, size FROM file WHERE size > 100000;
''')
for found in sorted(importlib.metadata.distributions(), key=lambda d: d.name.lower()):
    row = (found.name, found.version, found.metadata["License"], found.metadata["Summary"])
    key = db.execute("INSERT INTO distribution (name, version, licence, summary) VALUES (?, ?, ?, ?)", row).lastrowid
    for file in found.files or ():
        mark = file.hash.value if file.hash else None
        db.execute("INSERT INTO file VALUES (NULL, ?, ?, ?, ?)", (key, str(file), file.size, mark))
    for text in found.requires or ():
        db.execute("INSERT INTO requirement VALUES (?, ?)", (key, text))
db.commit()
"""
