"""Where a store is, as messages show it: never with a password."""

import pytest

from holdall.store.addresses import is_fleet, shown, shown_objects


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ("/data/me:pw@host", "/data/me:pw@host"),
        ("postgresql://me:pw@host:5432/db?sslpassword=pw", "postgresql://me@host:5432/db"),
        ("postgres://host/db", "postgresql://host/db"),
        ("postgresql:///db", "postgresql:///db"),
        ("postgresql://me:p/w@host/db", "postgresql://…"),
        ("postgresql://me:p?w@host/db", "postgresql://…"),
        ("postgresql://me:p#w@host/db", "postgresql://…"),
        ("postgresql://me:p@w@host/db", "postgresql://…"),
        ("postgresql://host:pw/db", "postgresql://…"),
        ("postgresql://[pw/db", "postgresql://…"),
    ],
)
def test_a_store_is_shown_without_its_password_whatever_signs_that_has(home: str, told: str) -> None:
    assert shown(home) == told
    assert is_fleet(home) is told.startswith("postgresql:")


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("https://key:secret@host/bucket?token=x", "https://host/bucket"),
        ("file:///objects", "file:///objects"),
        ("https://[secret", "(not an address)"),
    ],
)
def test_objects_are_shown_the_same_way(url: str, told: str) -> None:
    assert shown_objects(url) == told
