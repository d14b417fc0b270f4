"""The place for objects, without a database: what answers for it may be anything."""

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

pytest.importorskip("obstore", reason="the package obstore is missing: the extra fleet brings it")

from holdall.store.fleet.objects import Objects, name_of, object_in, segment_of
from holdall.values.errors import StoreFault, StoreUnsafe

_MORE = 400  # MB


class Flood(BaseHTTPRequestHandler):
    """Whatever is asked for, it sends far more, as if that were right."""

    sent = 0

    def do_GET(self) -> None:
        start, end = self.headers["range"].removeprefix("bytes=").split("-")
        self.send_response(206)
        self.send_header("content-range", f"bytes {start}-{end}/10000000")
        self.send_header("content-length", str(_MORE * 1_000_000))
        self.send_header("etag", '"x"')
        self.send_header("last-modified", "Mon, 16 Nov 2026 00:00:00 GMT")
        self.end_headers()
        try:
            for _ in range(_MORE):
                self.wfile.write(bytes(1_000_000))
                Flood.sent += 1
        except OSError:
            pass  # it does not listen any more

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def flood() -> Generator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Flood) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_no_more_is_read_of_a_bucket_than_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with flood() as address:
        for name, value in {"ENDPOINT_URL": address, "ALLOW_HTTP": "true", "REGION": "here"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
        with pytest.raises(StoreFault, match="sends more than was asked for"):
            Objects("s3://bucket").get("x", 0, 65536)
    assert Flood.sent < _MORE // 4


def test_a_range_that_ends_behind_the_object_gives_what_there_is(tmp_path: Path) -> None:
    objects = Objects(f"file://{tmp_path}")
    objects.put("x", b"0123456789")
    assert [objects.get("x", 2, 5), objects.get("x", 5, 99), objects.get("y", 0, 5)] == [b"234", b"56789", None]


def test_a_folder_for_objects_lets_nobody_else_in(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "objects"
    Objects(f"file://{tmp_path}/a%20b/objects").put("3f/x", b"of one user")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o770)  # of a team
    Objects(f"file://{folder}".replace(" ", "%20"))
    for mode, above, refusal in ((0o755, 0o700, "anybody can look into"), (0o700, 0o777, "put another folder in")):
        folder.chmod(mode)
        folder.parent.chmod(above)
        with pytest.raises(StoreUnsafe, match=refusal):
            Objects(f"file://{tmp_path}/a%20b/objects")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_for_objects_that_somebody_else_made_is_refused(tmp_path: Path) -> None:
    os.chown(tmp_path, 12345, -1)
    with pytest.raises(StoreUnsafe, match="belongs to user 12345"):
        Objects(f"file://{tmp_path}")


def test_only_names_that_a_store_gives_are_its_objects() -> None:
    own = "70206250-c0de-4f00-8000-000000000001"
    assert [object_in(one) for one in (name_of(own), segment_of(own, 0), segment_of(own, 123))] == [own] * 3
    others = (f"us/{own}.jpg", f"70/{own}.jpg", f"70/{own}/photo.jpg", f"us/{own}", f"70/{own}/1", f"70/{own}/0000000\u0661",
              "clock/x", "holdall-store", "")  # fmt: skip
    assert [object_in(one) for one in others] == [""] * len(others)


def test_a_place_for_objects_is_that_of_the_first_store_that_came(tmp_path: Path) -> None:
    objects = Objects(f"file://{tmp_path}")
    assert [objects.claim(store) for store in ("one", "one", "two", "one")] == [True, True, False, True]
