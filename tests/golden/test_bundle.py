"""Bundles that version 0.1.0 wrote are restored as they were, and can be written again."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.commands import Commands
from tests.golden.golden import DATA, lacking
from tests.golden.reading import BUNDLES, read_session
from tests.requirements import requirement

EXPECTED: dict[str, Any] = json.loads((DATA / "store-1.json").read_text())


def expected(session: str) -> dict[str, Any]:
    """What the store holds of it, but for the processes, which mean nothing here, and verdicts on quotes, which are ours."""
    read: dict[str, Any] = EXPECTED["read"][session]
    return _without_verdicts(read | {"outputs": [one | {"process": 0} for one in read["outputs"]]})


def _without_verdicts(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _without_verdicts(one) for key, one in told.items() if key != "verified"}  # type: ignore[reportUnknownVariableType]
    return [_without_verdicts(one) for one in told] if isinstance(told, list) else told  # type: ignore[reportUnknownVariableType]


def _verdict_bytes(session: str) -> int:
    events: list[dict[str, Any]] = EXPECTED["read"][session]["events"]
    return sum(len(f',"verified":{one["verified"]}') for one in events if "verified" in one)


@requirement("bundle:import-resolves")
@pytest.mark.parametrize("name", BUNDLES)
def test_every_handle_of_a_bundle_resolves_to_the_same_bytes(name: str, tmp_path: Path, holdall: Commands) -> None:
    home = tmp_path / "home"
    ran = holdall("import", str(BUNDLES[name]), "--json", home=home)
    assert ran.code == 0, ran.err
    known = EXPECTED["exported"][name]
    told = {key: ran.json[key] for key in ("redacted", "outputs", "output_bytes", "sessions")}
    assert lacking({key: known[key] for key in told}, told) == []
    restored = [one["name"] for one in ran.json["restored"]]
    assert restored == [_called_here(name, one["name"]) for one in known["sessions"]]
    for session in (one["name"] for one in known["sessions"]):
        found = json.loads(json.dumps(read_session(home, _called_here(name, session))))
        assert lacking(expected(session), _as_named(found, session)) == []
    checked = holdall("verify", "--json", home=home).json
    assert (checked["checked"], checked["damaged"]) == (known["outputs"], [])


@pytest.mark.parametrize("name", BUNDLES)
def test_a_restored_session_is_written_again_and_restored_once_more(
    name: str, tmp_path: Path, holdall: Commands
) -> None:
    home, other, file = tmp_path / "home", tmp_path / "other", tmp_path / "again.holdall"
    assert holdall("import", str(BUNDLES[name]), home=home).code == 0
    ran = holdall("export", name, "-o", str(file), "--json", home=home)
    assert ran.code == 0, ran.err
    known = EXPECTED["exported"][name]
    contents = ("outputs", "output_bytes", "redacted", "masked", "sessions")
    without_answers = {"notes": 0, "note_bytes": 0}  # those that a bundle brings are not believed
    sessions = [
        one
        | without_answers
        | {"name": _called_here(name, one["name"])}
        | {"events_bytes": one["events_bytes"] - _verdict_bytes(one["name"])}
        for one in known["sessions"]
    ]
    told = {**known, "sessions": sessions}
    assert lacking({key: told[key] for key in contents}, {key: ran.json[key] for key in contents}) == []
    assert holdall("import", str(file), home=other).code == 0
    for session in (one["name"] for one in known["sessions"]):
        found = json.loads(json.dumps(read_session(other, _called_here(name, session))))
        assert lacking(expected(session), _as_named(found, session)) == []


def _as_named(found: dict[str, Any], name: str) -> dict[str, Any]:
    return found | {"name": name, "tree": found["tree"] | {"name": name}}


def _called_here(first: str, name: str) -> str:
    """A bundle has no free choice of names below its first: one of them could be that of a session of yours."""
    return name if name == first or name.startswith(f"{first}/") else f"{first}/{name}"


def test_a_bundle_with_one_bit_changed_is_refused_whole(tmp_path: Path, holdall: Commands) -> None:
    """Else the other tests here could not fail."""
    data = bytearray(BUNDLES["outputs"].read_bytes())
    data[len(data) // 2] ^= 1
    file = tmp_path / "wrong.holdall"
    file.write_bytes(data)
    ran = holdall("import", str(file), "--json", home=tmp_path / "home")
    assert ran.code == 3
    assert holdall("ls", "--sessions", "--json", home=tmp_path / "home").json == {"sessions": [], "more": False}
