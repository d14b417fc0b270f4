"""Who may look: the exact host, our own origin, the token. And what every answer forbids to a page."""

import logging
import re
import socket
import sys
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from holdall.web.access import POLICY, own_name
from holdall.web.server import create_app
from tests.requirements import requirement
from tests.web.support import BASE, HOST, PORT, TOKEN, client

ALLOWED = (f"{HOST}:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}")
FOREIGN_HOSTS = (
    "evil.example", f"evil.example:{PORT}", "0.0.0.0", f"0.0.0.0:{PORT}", f"localhost.:{PORT}", f"[::1]:{PORT}",
    f"{HOST}", f"{HOST}:1", f"{HOST}:{PORT}.evil.example", f"127.1:{PORT}", f"2130706433:{PORT}", "",
)  # fmt: skip


@pytest.mark.parametrize("host", ALLOWED)
def test_our_own_address_is_answered(home: Path, host: str) -> None:
    with client(home) as browser:
        assert browser.get("/", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_web_007_a_foreign_host_is_refused_even_with_the_token(home: Path, host: str) -> None:
    with client(home) as browser:
        answer = browser.get("/", headers={"host": host})
    assert answer.status_code == 421
    assert "Sessions" not in answer.text


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://{HOST}:{PORT}", f"http://{HOST}:1", "http://localhost", ""]
)
def test_web_007_a_foreign_origin_is_refused_even_with_the_token(home: Path, origin: str) -> None:
    with client(home) as browser:
        assert browser.get("/", headers={"origin": origin}).status_code == 403


def test_web_007_our_own_origin_and_none_are_answered(home: Path) -> None:
    with client(home) as browser:
        assert browser.get("/", headers={"origin": BASE}).status_code == 200
        assert browser.get("/").status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "anything"])
@pytest.mark.parametrize(
    ("mode", "dest"), [("no-cors", "script"), ("cors", "empty"), ("navigate", "iframe"), ("websocket", "websocket")]
)
def test_what_another_site_fetches_or_frames_is_refused(home: Path, site: str, mode: str, dest: str) -> None:
    told = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
    with client(home) as browser:
        assert browser.get("/", headers=told).status_code == 403
        assert browser.get("/static/style.css", headers=told).status_code == 403


def test_a_link_on_another_site_may_lead_here(home: Path) -> None:
    told = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with client(home) as browser:
        assert browser.get("/", headers=told).status_code == 200


@pytest.mark.parametrize("path", ["/", "/static/style.css", "/sessions/totals", "/s/x", "/nowhere"])
def test_without_the_token_nothing_is_told(home: Path, path: str) -> None:
    with client(home, token=None) as stranger:
        answers = [
            stranger.get(path),
            stranger.get(path, headers={"authorization": "Bearer wrong"}),
            stranger.get(path, headers={"authorization": f"Basic {TOKEN}"}),
            stranger.get(path, headers={"cookie": f"holdall-view-{PORT}=wrong"}),
            stranger.get(path, headers={"cookie": f"holdall-view-1={TOKEN}"}),
            stranger.get(f"{_path(stranger)}{path}"),
            stranger.get(f"{path}?token=wrong"),
            stranger.get(f"{path}?token={TOKEN}&token=wrong"),
            stranger.get(path, headers={"authorization": "Bearer ü".encode("latin-1")}),  # type: ignore[dict-item]
        ]
    assert [answer.status_code for answer in answers] == [401] * len(answers)
    assert all("set-cookie" not in answer.headers for answer in answers)


def test_the_token_in_the_address_is_exchanged_for_a_cookie(home: Path) -> None:
    with client(home, token=None) as browser:
        answer = browser.get("/", params={"q": "a&b", "token": TOKEN})
        assert answer.status_code == 303
        assert answer.headers["location"] == f"{_path(browser)}/?q=a%26b"
        parts = [part.strip() for part in answer.headers["set-cookie"].split(";")]
        name, _, value = parts[0].partition("=")
        assert (name, parts[1:]) == (f"holdall-view-{PORT}", [f"Path={_path(browser)}", "HttpOnly", "SameSite=Strict"])
        assert len(value) > 40
        assert value != TOKEN
        assert browser.get(answer.headers["location"]).status_code == 200


@pytest.mark.parametrize("path", ["//evil.example/", "/\\evil.example", "//evil.example/%2e%2e"])
def test_the_exchange_never_leads_to_another_host(home: Path, path: str) -> None:
    with client(home, token=None) as browser:
        answer = browser.get(f"{BASE}{path}?token={TOKEN}")
    assert answer.status_code == 303
    assert re.match(r"/[0-9a-f]{32}/(?![/\\])", answer.headers["location"])


@requirement("viewer:own-path")
def test_a_cookie_lets_in_only_below_a_path_that_nobody_else_knows(home: Path) -> None:
    with client(home, token=None) as one, client(home, token=None) as other:
        path = _path(one)
        cookie = {"cookie": one.get(f"/s/x?token={TOKEN}").headers["set-cookie"].partition(";")[0]}
        one.cookies.clear()
        asked = [f"{path}/", path, f"{path}/static/style.css", "/", f"{path}x/", f"{_path(other)}/", f"/{path}/"]
        answers = [one.get(f"{BASE}{at}", headers=cookie).status_code for at in asked]
        # Cookies of others beside it, and one that Python's own reader of cookies has at for half a minute of processor.
        hostile = 'a="' + "\\" * 60_000
        among = [f"x=1; {cookie['cookie']}; y", hostile, f"{cookie['cookie']}x", cookie["cookie"].replace("=", "x=")]
        answers += [one.get(f"{BASE}{path}/", headers={"cookie": sent}).status_code for sent in among]
    assert answers == [200, 200, 200, 401, 401, 401, 401, 200, 401, 401, 401]
    assert len(path) > 32


def test_every_address_on_a_page_is_below_that_path(home: Path) -> None:
    with client(home) as browser:
        pages = [browser.get(f"{_path(browser)}{path}").text for path in ("/", "/nowhere", "/?q=x", "/s/x")]
        outside = [browser.get(path).text for path in ("/", "/nowhere")]
    for page in pages:
        addresses = re.findall(r'(?:href|src|action|hx-get)="([^"#]+)"', page)
        assert len(addresses) >= 6
        assert all(address.startswith(f"{_path(browser)}/") for address in addresses)
    assert not any(_path(browser) in page for page in outside)


@requirement("viewer:own-host")
@pytest.mark.parametrize("host", [f"0123456789abcdef.localhost:{PORT}", f"{HOST}:{PORT}", f"localhost:{PORT}"])
def test_where_the_viewer_has_a_name_of_its_own_it_is_also_at_its_address(home: Path, host: str) -> None:
    """Through a tunnel a browser may not know the name."""
    app = create_app(str(home), TOKEN, HOST, PORT, own=f"0123456789abcdef.localhost:{PORT}")
    with TestClient(app, base_url=f"http://{host}", follow_redirects=False) as browser:
        first = browser.get(f"/?token={TOKEN}")
        assert browser.get(first.headers["location"]).status_code == 200


@requirement("viewer:own-host")
@pytest.mark.parametrize(
    ("platform", "found", "has_one"),
    [("linux", "127.0.0.1", True), ("linux", "", True), ("linux", "192.0.2.1", False), ("darwin", "::1", True),
     ("darwin", "", False)],
)  # fmt: skip
def test_the_name_is_new_with_each_start_wherever_browsers_find_it(
    monkeypatch: pytest.MonkeyPatch, platform: str, found: str, has_one: bool
) -> None:
    """A service worker that another server left at our port gets every request to its origin, with the token."""

    def getaddrinfo(name: str, port: int, **_: object) -> list[tuple[object, ...]]:
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "simulated")
        return [(0, 0, 0, "", (found, port))]

    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    names = {own_name(PORT) for _ in range(2)}
    assert all(bool(re.fullmatch(rf"[0-9a-f]{{16}}\.localhost:{PORT}", name)) is has_one for name in names)
    assert len(names) == (2 if has_one else 1)


def _path(browser: TestClient) -> str:
    return str(browser.app.state.rules.path)  # type: ignore[attr-defined]


def test_a_browser_that_comes_from_a_file_gets_a_page_that_leads_on(home: Path) -> None:
    told = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with client(home, token=None) as browser:
        answer = browser.get(f"/?q=%22%3E%3Cscript%3E&token={TOKEN}", headers=told)
        assert answer.status_code == 200
        assert f'content="0;url={_path(browser)}/?q=%22%3E%3Cscript%3E"' in answer.text
        assert browser.get(f"{_path(browser)}/").status_code == 200


def test_a_ticket_is_good_for_one_use(home: Path) -> None:
    with client(home, token=None) as browser:
        ticket = browser.app.state.rules.ticket()  # type: ignore[attr-defined]
        assert browser.get(f"/?token={ticket}").status_code == 303
        browser.cookies.clear()
        assert browser.get(f"/?token={ticket}").status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND"])
def test_only_looking_is_possible(home: Path, method: str) -> None:
    with client(home) as browser:
        assert browser.request(method, "/").status_code == 405


def test_a_header_that_stands_twice_is_refused(home: Path) -> None:
    with client(home) as browser:
        headers = [("host", f"{HOST}:{PORT}"), ("host", "evil.example")]
        assert browser.get("/", headers=headers).status_code == 400


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/style.css", "/s/x", "/?page=x"])
def test_every_answer_carries_the_rules(home: Path, path: str) -> None:
    with client(home) as friend, client(home, token=None) as stranger:
        answers = [friend.get(path), stranger.get(path), friend.get(path, headers={"host": "evil.example"})]
    nonce = re.search(r"'nonce-([\w-]{22})'", answers[0].headers["content-security-policy"])
    assert nonce
    ours = f"{POLICY}; script-src 'nonce-{nonce[1]}'; style-src 'nonce-{nonce[1]}'"
    for answer, policy in zip(answers, (ours, POLICY, POLICY), strict=True):
        assert answer.headers.get_list("content-security-policy") == [policy]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers.get_list("cache-control") == ["no-store"]
    assert "unsafe" not in POLICY
    assert "*" not in POLICY


@requirement("viewer:ended")
def test_the_mark_of_a_viewer_and_what_may_run_on_a_page_are_known_to_who_is_let_in_only(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client(home) as friend, client(home, token=None) as stranger:
        answers = [friend.get(path) for path in ("/", "/nowhere", "/static/style.css", "/sessions/totals")]
        others = [stranger.get("/"), stranger.get("/?token=x"), friend.get("/", headers={"host": "evil.example"})]
        monkeypatch.setattr(friend.app.state.viewer.overview, "totals", None)  # type: ignore[attr-defined]
        answers.append(friend.get("/sessions/totals"))
    assert [answer.status_code for answer in answers] == [200, 404, 200, 200, 500]
    (mark,) = {answer.headers["holdall-viewer"] for answer in answers}
    assert len(mark) > 40
    policies = {answer.headers["content-security-policy"] for answer in answers}
    assert len(policies) == len(answers), "a nonce is for one answer"
    for page in answers[:2]:
        assert f'<meta name="holdall-viewer" content="{mark}">' in page.text
        nonces = re.findall(r'<(?:script|link rel="stylesheet") nonce="([^"]+)"', page.text)
        assert len(nonces) == len(re.findall(r"<script|stylesheet", page.text)) >= 4
        assert all(f"script-src 'nonce-{nonce}'" in page.headers["content-security-policy"] for nonce in nonces)
    assert all("holdall-viewer" not in answer.headers and "nonce" not in str(answer.headers) for answer in others)
    with client(home) as next_one:
        assert next_one.get("/").headers["holdall-viewer"] != mark


def test_web_013_an_event_is_one_escaped_line_and_never_holds_the_token(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evil = "x\n2026-01-01 INFO admin login ok\x1b[31m"
    with caplog.at_level(logging.INFO, "holdall.web"), client(home) as browser:
        path = "/%0a2026-01-01%20INFO%20admin%20login%20ok%1b%5b31m"
        browser.get(path, headers={"user-agent": evil.replace("\n", " ")})
        browser.get(f"{path}?token=wrong")
        browser.get(f"/?token={TOKEN}")
        browser.get("/", headers={"host": "evil.example\x1b[31m"})
    told = [record.getMessage() for record in caplog.records if record.name == "holdall.web"]
    assert len(told) == 6  # four requests, and that two of them were refused
    assert all("\n" not in line and "\x1b" not in line for line in told)
    assert any("\\n2026-01-01 INFO admin login ok\\x1b[31m" in line for line in told)
    assert not any(TOKEN in line for line in told)


def test_a_socket_that_is_no_http_is_closed(home: Path) -> None:
    from starlette.websockets import WebSocketDisconnect

    with client(home) as browser, pytest.raises(WebSocketDisconnect), browser.websocket_connect("/"):
        pass


def test_a_page_that_cannot_be_made_says_so_without_its_insides(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(**_: object) -> None:
        raise RuntimeError("secret insides")

    with client(home) as browser:
        monkeypatch.setattr(browser.app.state.viewer.overview, "page", broken)  # type: ignore[attr-defined]
        answer = browser.get("/")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["content-security-policy"].startswith(POLICY)
