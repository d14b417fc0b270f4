"""The files beside the pages: exactly those, nothing outside, and the one that is not ours as its authors released it."""

import hashlib
import re
from pathlib import Path

import pytest

import holdall.web
from tests.web.support import client

WEB = Path(holdall.web.__file__).parent
HTMX = "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717"  # htmx 2.0.11
OUTSIDE = (
    "/static/../../etc/passwd", "/static/..%2f..%2fetc/passwd", "/static/%2e%2e/house.py", "/static/../house.py",
    "/static/..%5c..%5chouse.py", "/static//etc/passwd", "//etc/passwd", "/static/", "/static", "/static/htmx",
    "/static/htmx/LICENSE", "/static/style.css%00.js", "/static/%00", "/static/htmx/../style.css%2f", "/static/STYLE.CSS",
    "/a/%2e%2e/%2e%2e", "/a/..;/x", "/a/%00", "/s/..%2f..%2fetc", "/s/..;/o/x", "/s/%00", "/templates/base.html",
)  # fmt: skip


def test_every_file_that_a_template_names_is_there_with_its_type(home: Path) -> None:
    named: set[str] = set()
    for template in (WEB / "templates").glob("*.html"):
        named |= set(re.findall(r'(?:src|href)="{{ prefix }}(/static/[^"]+)"', template.read_text(encoding="utf-8")))
    assert {"/static/style.css", "/static/keys.js", "/static/icon.svg", "/static/htmx/htmx.min.js"} <= named
    types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    with client(home) as browser:
        for address in named:
            answer = browser.get(address)
            assert answer.status_code == 200, address
            assert answer.headers["content-type"].partition(";")[0] == types[address.rpartition(".")[2]]


@pytest.mark.parametrize("path", OUTSIDE)
def test_web_009_no_path_leads_outside(home: Path, path: str) -> None:
    with client(home) as browser:
        answer = browser.get(f"http://127.0.0.1:8765{path}")
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_htmx_is_as_released_and_comes_with_its_licence() -> None:
    assert hashlib.sha256((WEB / "static" / "htmx" / "htmx.min.js").read_bytes()).hexdigest() == HTMX
    assert "Zero-Clause BSD" in (WEB / "static" / "htmx" / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.parametrize("template", sorted((WEB / "templates").glob("*.html")), ids=lambda path: path.name)
def test_no_template_holds_script_or_style_or_marks_anything_as_safe(template: Path) -> None:
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"\sstyle\s*=|\son[a-z]+\s*=|javascript:|<style", text, re.IGNORECASE)
    assert all(re.fullmatch(r"\s*", body) for body in re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL))
    assert not re.search(r"\|\s*(safe|e|escape|forceescape)\b|autoescape|Markup", text)
    assert not re.search(r"\bhx-on|hx-vals=[\"']js:|hx-headers", text)
    assert not re.search(r"https?://|//[a-z]", text), "nothing is fetched from elsewhere"
