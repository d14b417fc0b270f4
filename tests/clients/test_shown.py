"""What the model of a real coding agent sees of a result that came through the gateway, in every form of result."""

import re
from pathlib import Path

import pytest

from tests.clients.agents import Agent
from tests.clients.conftest import SIZES
from tests.clients.model import OURS
from tests.clients.run import SECONDS
from tests.clients.server import LARGE, RESULTS, SMALL, badge_of
from tests.clients.table import PAGE, row_of
from tests.clients.trial import BEHIND, DIRECT, SLOW, Record, Step, handles_in
from tests.requirements import requirement

pytestmark = [
    pytest.mark.in_full(one_in=3),
    pytest.mark.clients,
    pytest.mark.timeout(2 * SECONDS),
]  # the first test of an agent plays its trial
each_form = pytest.mark.parametrize("tool", RESULTS)
each_size = pytest.mark.parametrize(
    "size", [pytest.param(size, id="large" if size == LARGE else "middle") for size in SIZES]
)

BADGES = {tool: [badge_of(tool)] for tool in RESULTS} | {"both": [badge_of("both"), badge_of("both, in rows")]}
"""What is in the row that the model looks for. Text and structured content that differ have a badge each."""
_NOTICE = re.compile(
    rf"{BEHIND}/\w+ returned [\d,]+ bytes .*\)\n"
    r"handle: (?P<handle>\w+)\n.*"
    r"<(?P<tag>\d{3,})>\n.*\n</(?P=tag)>\n"
    r'Next: .*context_(?:grep|query)\(handle="(?P=handle)", .*\)',
    re.DOTALL,
)


def plain(step: Step) -> str:
    """As a model reads it that finds text inside of JSON."""
    return step.text.replace("\\n", "\n").replace('\\"', '"')


@pytest.mark.in_full(one_in=2)
def test_the_trial_comes_to_its_end(folder: Path) -> None:
    record = Record.read(folder / "record.json")
    assert (record.code, record.ended, record.problem) == (0, True, ""), (folder / "printed.txt").read_text()[-3000:]


@each_form
@each_size
@requirement("gateway:real-clients")
def test_a_model_finds_a_row_with_at_most_two_searches(record: Record, tool: str, size: int) -> None:
    searches = record.searches_after(record.step(BEHIND, tool, size=size))
    assert len(searches) <= 2
    answers = "\n".join(step.text for step in searches)
    assert [badge for badge in BADGES[tool] if badge not in answers] == []


@each_form
@each_size
@requirement("gateway:oversized-notice")
def test_the_notice_is_in_the_request_whole(record: Record, tool: str, size: int) -> None:
    step = record.step(BEHIND, tool, size=size)
    assert _NOTICE.search(plain(step)), step.text
    assert len(handles_in(step.text)) == len(BADGES[tool])


@each_form
@requirement("gateway:any-client")
def test_a_small_result_is_shown_as_without_the_gateway(record: Record, tool: str) -> None:
    def comparable(step: Step) -> tuple[str, int]:
        # The agents add the server's name, how long it took, and names of files that they make.
        same = re.sub(rf"\b({BEHIND}|{DIRECT})\b|Wall time: [\d.]+|blob-\d+-\w+", "…", step.text)
        return same, step.images

    behind, direct = record.step(BEHIND, tool, size=SMALL), record.step(DIRECT, tool, size=SMALL)
    assert comparable(behind) == comparable(direct)


def test_a_slow_call_goes_to_the_background_and_waiting_brings_its_output(record: Record) -> None:
    running = record.step(SLOW, "slow")
    assert "still running" in running.text
    assert badge_of("slow") in record.step(SLOW, "wait_for_tool_output", handle=handles_in(running.text)[0]).text


def test_our_tools_are_listed_once_however_many_servers_are_behind_a_gateway(record: Record) -> None:
    listed = [name for name in record.tools if re.search(f"({BEHIND}|{SLOW})_+context_grep$", name)]
    assert len(listed) == 1


@requirement("gateway:tools-listed-always")
def test_our_tools_can_be_called_at_once(record: Record) -> None:
    """An agent may only name the tools of its servers, and load one when its model has asked for it."""
    assert [name for name in record.loaded if name.endswith(OURS)] == []


def test_the_documentation_says_what_each_agent_shows_its_model(agent: Agent, record: Record) -> None:
    assert row_of(agent, record) in PAGE.read_text(encoding="utf-8").splitlines()
