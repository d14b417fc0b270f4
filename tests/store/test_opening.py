"""Which store a program uses: by its address, its settings and the variables of the system."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from holdall.store.opening import checked, default_home, empty_store, has_sessions, is_store, open_store
from holdall.store.protocol import Quota
from holdall.text.tokens import Estimate
from holdall.values.errors import BadSetting, NothingFound
from holdall.values.retention import Retention
from holdall.values.settings import Settings
from tests.store.support import Clock

DATABASE = "postgresql://me@host/db"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOLDALL_HOME", "HOLDALL_OBJECTS", "XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_store_is_where_the_variable_says_or_where_the_system_has_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(default_home()).is_relative_to(tmp_path)
    assert Path(default_home()).name == "holdall"
    monkeypatch.setenv("HOME", str(tmp_path / "missing"))
    with pytest.raises(BadSetting, match="there is no such folder; set HOLDALL_HOME"):
        default_home()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert Path(default_home()).name == "holdall"
    for named in (str(tmp_path), DATABASE):
        monkeypatch.setenv("HOLDALL_HOME", named)
        assert default_home() == named
    monkeypatch.setenv("HOLDALL_HOME", "here")
    with pytest.raises(BadSetting, match=r"'HOLDALL_HOME'.*an absolute path"):
        default_home()


def test_what_cannot_be_the_place_of_a_store_is_refused_without_its_password(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "broken").symlink_to("nowhere")
    for path, told, rule in (
        ("mysql://me:pw@host/db", "mysql://…", "it must be a folder, or a database"),
        ("host=h password=pw", "…", "it must be an absolute path"),
        ("me:pw@host/db", "…", "it must be an absolute path"),
        ("here", "here", "it must be an absolute path"),
        (f"{tmp_path}/a\0b", f"{tmp_path}/a\0b", "it must be an absolute path"),
        (f"{tmp_path}/file", f"{tmp_path}/file", "it must be a folder, and what is there is not one"),
        (f"{tmp_path}/broken", f"{tmp_path}/broken", "it must be a folder, and what is there is not one"),
        (f"{tmp_path}/link", f"{tmp_path}/link", "it must be a folder, not a link"),
    ):
        with pytest.raises(BadSetting) as refused:
            checked(path, key="store_dir", where="a file")
        assert (refused.value.key, refused.value.value) == ("store_dir", told)
        assert refused.value.rule.startswith(rule)
        assert "in a file" in str(refused.value)
    for good in (str(tmp_path), f"{tmp_path}/new", f"{tmp_path}/me@here"):
        assert checked(good, key="store_dir") == good


def test_a_folder_is_opened_for_writing_or_only_to_look(tmp_path: Path) -> None:
    with pytest.raises(BadSetting, match="are not expanded here"):
        open_store("~/outputs")
    home = str(tmp_path / "home")
    with pytest.raises(NothingFound):
        open_store(home, read_only=True).open_session("s1")
    session = open_store(home, retention=Retention(days=3)).open_session("s1")
    assert session.retention == Retention(days=3)
    assert open_store(home, read_only=True).open_session("s1") == session


class Fleet:
    """In place of a store of many hosts: what it is opened with."""

    def __init__(self, home: str, **options: Any) -> None:
        self.home, self.options = home, options

    def find_session(self, name: str) -> None:
        return None


def test_a_database_is_opened_with_the_settings_that_are_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr("holdall.store.fleet.store.FleetStore", Fleet)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    plain: Any = open_store(DATABASE)
    default = Settings()
    assert plain.home == DATABASE
    cache = plain.options.pop("cache_dir")
    assert (Path(cache).name, Path(cache).is_relative_to(tmp_path)) == ("objects", True)
    assert plain.options == {
        "objects": "", "principal": default.principal, "cache_bytes": default.cache_bytes, "tokenizer": None,
        "retention": None, "quota": None, "clock": None,
    }  # fmt: skip
    monkeypatch.setenv("HOLDALL_OBJECTS", "s3://theirs")
    settings = Settings(objects="s3://ours", principal="me", cache_dir="/cache", cache_bytes=1 << 30)
    options: dict[str, Any] = {
        "tokenizer": Estimate(), "retention": Retention(days=1), "quota": Quota(store_bytes=9), "clock": clock,
    }  # fmt: skip
    own: Any = open_store(DATABASE, settings=settings, **options)
    assert own.options == {
        "objects": "s3://ours", "principal": "me", "cache_dir": "/cache", "cache_bytes": 1 << 30, **options,
    }  # fmt: skip
    theirs: Any = open_store(DATABASE, clock=time.time)
    assert theirs.options["objects"] == "s3://theirs"
    with pytest.raises(NothingFound):
        open_store(DATABASE, read_only=True).open_session("s1")


def test_whether_anything_was_ever_kept_is_known_without_opening_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    places = [str(tmp_path), str(tmp_path / "file"), str(tmp_path / "missing"), DATABASE]
    assert [is_store(one) for one in places] == [True, False, False, True]
    assert [has_sessions(one) for one in places] == [False, True, False, True]
    open_store(str(tmp_path)).open_session("s1")
    assert has_sessions(str(tmp_path))


def test_a_store_to_look_at_leaves_nothing_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = empty_store()
    store.open_session("s1")
    assert [one.name for one in store.sessions()] == ["s1"]
    assert os.listdir(tmp_path) == []
