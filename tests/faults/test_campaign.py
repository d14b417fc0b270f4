"""The campaign in short: every kind fires and finds nothing; a store that is broken on purpose is caught; runs add up."""

import asyncio
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from holdall.store.directory.folder import SessionFolder
from holdall.store.directory.index import Catalogue
from holdall.store.reader import FileReader
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts
from tests.faults import chaos, kills, power
from tests.faults.campaign import KINDS, Counts
from tests.faults.harness import FULL, share
from tests.faults.kills import Fired
from tests.gateway.support import Wire
from tests.requirements import requirement

pytestmark = pytest.mark.faults

ENOUGH = 400  # faults, within which each mistake must have been noticed


@requirement("store:no-acknowledged-loss")
@pytest.mark.parametrize("kind", KINDS)
def test_a_sound_store_loses_nothing(kind: str, scratch: Path) -> None:
    least, fired = 200 if FULL else 4, list[Fired]()
    for one in itertools.islice(KINDS[kind](scratch, random.Random(1)), 5 * least):
        fired.append(one)  # on a busy machine many hit the same place
        if len(fired) >= least and len({one.place for one in fired}) > 1:
            break
    assert [one for one in fired if one.found] == []
    assert len({one.place for one in fired}) > 1


@pytest.mark.parametrize("broken", share(["record in place", "bytes before tombstone"], 2))
def test_kills_catch_a_writer_that_takes_its_steps_in_the_wrong_order(broken: str, scratch: Path) -> None:
    _is_caught(kills.rounds(scratch, random.Random(3), broken=broken))


@pytest.mark.parametrize(
    "broken", share(["data not synced", "folder not synced", "home not synced", "record before data"], 4)
)
def test_power_cuts_catch_a_writer_that_leaves_out_a_sync(broken: str, scratch: Path) -> None:
    _is_caught(power.rounds(scratch, random.Random(2), broken=broken))


def test_flips_catch_a_reader_that_compares_nothing(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare_nothing(self: FileReader, data: bytes, index: int) -> None:
        pass

    monkeypatch.setattr(FileReader, "_check", compare_nothing)
    _is_caught(KINDS["bit flips"](scratch, random.Random(1)))


def test_errors_catch_a_list_that_leaves_out_what_it_cannot_read(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survey = Catalogue.survey

    def survey_of_the_readable(self: Catalogue, folder: SessionFolder) -> tuple[list[Facts], dict[str, StoreFault]]:
        return survey(self, folder)[0], {}

    monkeypatch.setattr(Catalogue, "survey", survey_of_the_readable)
    _is_caught(KINDS["I/O errors"](scratch, random.Random(1)))


class _Cutting:
    """A gateway that cuts what is long, and says nothing where it refuses."""

    def begin(self, _method: str, params: dict[str, Any]) -> tuple[int, asyncio.Future[dict[str, Any]]]:
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        text = str(params["arguments"].get("text", "")) * int(params["arguments"].get("times", 1))
        result = {"content": [{"type": "text", "text": text[:500]}]}
        future.set_result({"result": result} if text else {"error": {"code": 1, "message": "Internal error"}})
        return 1, future

    def say(self, _message: dict[str, Any]) -> None:
        pass


def test_chaos_catches_a_gateway_that_cuts_and_errors_that_say_nothing(scratch: Path) -> None:
    scene = chaos.Scene(1, scratch, scratch, "")
    scene.client = cast("Wire", _Cutting())
    asyncio.run(chaos.Caller(scene, "1").calls(40))
    found = {place: problems[0] for place, problems in scene.events if problems}
    assert found["echo: wrong"].startswith("500 characters in place of ")
    assert found["bad json: refused"] == "it does not say what happened: 'Internal error'"


def test_chaos_catches_what_grows(scratch: Path) -> None:
    scene = chaos.Scene(1, scratch, scratch, "")
    scene.samples += [[0.0, 40e6 + 400_000 * second, 20, 60e6, 20] for second in range(240)]
    scene.check_growth()
    assert [problems for _, problems in scene.events if problems] == [
        ["gateway memory went from 75,800,000 to 123,800,000"]
    ]


def test_the_memory_in_chaos_is_plotted(scratch: Path) -> None:
    (scratch / chaos.SAMPLES).write_text(json.dumps([[60.0 * minute, 120e6, 50, 90e6, 70] for minute in range(3)]))
    drawn = ElementTree.fromstring(chaos.plotted(scratch / chaos.SAMPLES))
    texts = [one.text for one in drawn.iter() if one.tag.endswith("text")]
    assert texts[1:] == ["0 MB", "100 MB", "200 MB", "0", "2 minutes", "gateway", "viewer"]


def test_what_fired_is_added_up_over_runs(scratch: Path) -> None:
    for run in (1, 2):
        counts = Counts("bit flips", scratch / "state")
        (scratch / str(run)).mkdir()
        assert counts.run(scratch / str(run), run, 0.0) == 0
        assert counts.places.total() == run
    assert next(Counts("bit flips", scratch / "state").report()).startswith("bit flips: 2 fired at ")


def _is_caught(rounds: Iterator[Fired]) -> None:
    fired = next((one for one in itertools.islice(rounds, ENOUGH) if one.found), None)
    assert fired is not None
