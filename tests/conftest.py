"""What every test gets: one event loop, hypothesis with its files in `.dev/`, and no real language model."""

import atexit
import gc
import itertools
import math
import os
import re
import signal
import sys
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.cli.program import ENDS
from tests.rewritten import rewrite_all
from tests.summary import Meter, Summary, is_whole, note_requirements

_HYPOTHESIS = Path(__file__).parents[1] / ".dev" / "hypothesis"
set_hypothesis_home_dir(_HYPOTHESIS)

# No deadline: two workers share two cores with whatever else runs, and a slow example is not a wrong one.
settings.register_profile("busy", max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("here", settings.get_profile("busy"), database=DirectoryBasedExampleDatabase(_HYPOTHESIS))
# A build server sees the same examples each time: a red build is red for a reason that is in the commit.
settings.register_profile("ci", settings.get_profile("busy"), derandomize=True, database=None)
settings.register_profile("full", settings.get_profile("here"), max_examples=1000)

if os.environ.get("HOLDALL_TEST_FULL"):
    settings.load_profile("full")
else:
    settings.load_profile("ci" if os.environ.get("CI") else "here")

# A build server may have been started in the background of a shell, which then ignores Ctrl-C, or with nohup, and so would
# every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Here and not in a fixture, so that every process that a test starts has it too.
os.environ["HOLDALL_REAL_MODELS"] = "off"
# Nor should each of those processes compile every module anew, nor this one rewrite the asserts of every test: that is more
# than half of what it takes to find them.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_NUMBERS = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):  # with several workers, their reports arrive here
        config.pluginmanager.register(Summary(whole=is_whole(config)))
        if is_whole(config) and config.getoption("numprocesses", None):
            rewrite_all(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is imported to find ten thousand tests stays to the end: nobody needs to look through it for garbage, neither
    on the way nor in each of the tests, nor copy it in a fork to count references."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        atexit.register(gc.unfreeze)  # the end of Python frees it, or libraries would say that it was forgotten


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if is_whole(config) and "HOLDALL_TEST_FULL" not in os.environ:
        left = _left_out(items)
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]
    for item in items:
        note_requirements(item)
        if isinstance(item, pytest.Function) and item.get_closest_marker("model") is not None:
            item.fixturenames.insert(0, "real_models")


def _left_out(items: list[pytest.Item]) -> set[pytest.Item]:
    """What a whole run does without: of each test, or module, that bears the mark `in_full`, all but the share that it names.

    Which these are follows from their names: the same each time, whatever is added beside them. Of a module, a test that
    proves a requirement always runs.
    """
    families: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    shares: dict[str, int] = {}
    for item in items:
        node, mark = next(item.iter_markers_with_node("in_full"), (None, None))
        if node is None or mark is None or (node is not item and item.get_closest_marker("requirement")):
            continue
        family = node.nodeid.partition("[")[0]
        families[family].append(item)
        shares[family] = mark.kwargs.get("one_in", 0)
    left = set[pytest.Item]()
    for family, members in families.items():
        staying = math.ceil(len(members) / shares[family]) if shares[family] else 0
        left.update(sorted(members, key=lambda one: zlib.crc32(one.nodeid.encode()))[staying:])
    return left


@pytest.fixture
def real_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test that means to call a model: one on a loopback address, or one of the suite `model`."""
    monkeypatch.setenv("HOLDALL_REAL_MODELS", "on")


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new folder, as pytest's own, which looks through the folders of all tests before to find a number for it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    made = tmp_path_factory.getbasetemp() / f"{name}{next(_NUMBERS)}"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture(scope="session", autouse=True)
def _end_the_process_that_forks_commands() -> Iterator[None]:
    """It is started by the first test that runs a command, whichever that is."""
    yield
    ENDS.close()


@pytest.fixture
def anyio_backend() -> str:
    """Async tests run on asyncio: the library promises no other loop."""
    return "asyncio"
