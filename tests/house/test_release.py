"""What would go out: an sdist that holds what it should and builds the same wheel, a version with its changelog, licences."""

import re
import tarfile
import zipfile
from pathlib import Path

import pytest

import holdall
from tests.house import release
from tests.house.test_packaging import installed_with

ROOT = Path(__file__).parents[2]


@pytest.mark.in_full
def test_the_sdist_is_the_repository_without_caches_and_builds_the_same_wheel(tmp_path: Path) -> None:
    name = f"holdall-{holdall.__version__}"
    with tarfile.open(release.build(tmp_path, target="sdist")) as packed:
        top = {Path(one.name).parts[1] for one in packed.getmembers()}
        packed.extractall(tmp_path, filter="data")
    assert {one for one in top if one.startswith(".")} == {".gitignore"}
    assert {"src", "tests", "docs", "dev", "LICENSE", "CHANGELOG.md", "pyproject.toml"} <= top
    wheels = [release.build(tmp_path / one, at, "wheel") for one, at in (("a", ROOT), ("b", tmp_path / name))]
    ours, theirs = ({one: wheel.read(one) for one in wheel.namelist()} for wheel in map(zipfile.ZipFile, wheels))
    assert ours == theirs


def test_the_version_is_the_first_of_the_changelog_which_says_when_it_was_released_or_that_it_was_not() -> None:
    heading = re.search(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert heading is not None
    version, _, when = heading[1].partition(", ")
    assert version == holdall.__version__
    assert when == "not released yet" or re.fullmatch(r"\d{4}-\d\d-\d\d", when)


def test_every_dependency_says_its_licence_and_those_that_ask_for_more_than_a_notice_are_known() -> None:
    found = {name: licence for name, _, licence in release.found_licences()}
    assert len(found) > 50
    assert [name for name, licence in found.items() if licence == "not said"] == []
    strict = {name for name, licence in found.items() if re.search(r"GPL|MPL|EPL|CDDL", licence)}
    assert strict == {"certifi", "psycopg", "psycopg-binary"}  # Mozilla's list of certificates; PostgreSQL, for a fleet
    assert not strict & installed_with("holdall")


@release.in_full
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("target", "extras"), [("wheel", ""), ("sdist", "[all]")])
def test_it_works_where_nothing_else_is_installed(target: str, extras: str, tmp_path: Path) -> None:
    package = release.build(tmp_path / "built", target=target)
    try:
        assert release.try_fresh(package, extras, tmp_path) == f"holdall {holdall.__version__}"
    except release.NoRegistry as problem:
        pytest.skip(f"the package registry cannot be reached: {problem}")
