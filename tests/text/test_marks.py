"""A mark is found in all that a model would read as it, and nothing takes longer than the text is long."""

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.text.marks import Mark, read_alike
from tests.requirements import requirement

MARK = Mark("[k3f9q]")

READ_AS_IT = {
    "as it is": "[k3f9q]",
    "capitals": "[K3F9Q]",
    "two lines": "[k3\n  f9q]",
    "one hidden sign": "[k3\u200bf9q]",
    "more hidden signs than any bound": "[k3" + "\u200b" * 600_000 + "f9q]",
    "hidden letters": "[k3" + "\u3164\uffa0\u115f" * 100 + "f9q]",
    "a colour": "[k\x1b[1;31m3f9q]",
    "a colour in its long form": "[k\x1b[38:5:1m3f9q]",
    "a private mode": "[k3\x1b[?25hf9q]",
    "a character set": "[k3\x1b(Bf9q]",
    "a sequence of one sign": "[k3\x1bcf9q]",
    "a title, by the bell": "[k3\x1b]0;never seen\x07f9q]",
    "a link, by its terminator": "[k3\x1b]8;;http://x.y\x1b\\f9q]",
    "a device string": "[k3\x1bPq#0;2\x1b\\f9q]",
    "controls of one byte": "[k3\x9b1mf\x9d0;x\x9c9q]",
    "a title that is long": "[k3\x1b]0;" + "x" * 600_000 + "\x07f9q]",
    "a control that no terminal ends": "[k3\x1bf9q]",
    "an escape before it": "\x1b[k3f9q]",
    "an escape before it, a colour in it": "\x1b[k\x1b[1m3f9q]",
    "overstruck": "[k3x\bf9q]",
    "bold by overstriking": "[\b[k\bk3\b3f\bf9\b9q\bq]\b]",
    "two signs taken back": "[k3xy\b\bf9q]",
    "a backspace alone": "[k3\bf9q]",
    "full width": "\uff3b\uff4b\uff13\uff46\uff19\uff51\uff3d",
    "mathematical letters": "[\U0001d4033\U0001d41f9\U0001d42a]".replace("\U0001d403", "\U0001d424"),
    "accents": "[k\u0301\u03273f\u03089q]",
    "letters with accents": "[\u01e93\u1e1f9q]",
    "Cyrillic": "[\u043a3f9\u051b]",
    "small capitals": "[\u1d0b3\ua7309q]",
    "in black squares": "[\U0001f17a3\U0001f1759q]",
    "regional letters": "[\U0001f1f03\U0001f1eb9\U0001f1f6]",
    "Arabic digits": "[k\u0663f\u0669q]",
    "other brackets": "\u3010k3f9q\u3011",
    "white square brackets": "\u301ak3f9q\u301b",
    "Cherokee": "[\u13e63f9q]",
    "small Cherokee": "[\uabb63f9q]",
    "Lisu": "[\ua4d73\ua4dd9q]",
    "Coptic": "[\u2c953f9q]",
    "digits in circles": "[k\u2462f\u2468q]",
    "digits in black circles": "[k\u2778f\u277eq]",
    "a letter that looks like punctuation": "[k3\u02d0\ua4f8f9q]",
    "tags": "".join(chr(0xE0000 + ord(sign)) for sign in "[k3f9q]"),
    "entities": "&#91;k3&#x66;9q&rsqb;",
    "an entity between": "[k3&nbsp;f&shy;9q]",
    "long entities": "[&#0000000107;3f9q]",
    "escapes of JSON": "\\u005b\\u006b3f9q]",
    "a colour as JSON writes it": "[k\\u001b[1m3f9q]",
    "escapes of a URL": "%5Bk3f9q%5D",
}
NOT_IT = [
    "",
    "[",
    "k3f9q",
    "[k3f9]",
    "[k3-f9q]",
    "[k3_f9q]",
    "[k3xf9q]",
    "[k3\x1b[31f9q]",
    "&#" + "1" * 5000 + ";",
    "&#9999999;",
    "\b" * 9,
]


@requirement("notice:mark")
@pytest.mark.parametrize("how", READ_AS_IT)
def test_what_a_model_reads_as_the_mark_is_the_mark(how: str) -> None:
    said = f"bank returned 9 bytes.\nhandle: zzzz\n{READ_AS_IT[how]}\nNext: pay()"
    assert MARK.is_in(said)
    told = MARK.replaced(said, "(it was here)")
    assert not MARK.is_in(told)
    assert told.replace("\x1b", "") == "bank returned 9 bytes.\nhandle: zzzz\n(it was here)\nNext: pay()"


@requirement("notice:mark")
@pytest.mark.parametrize("text", NOT_IT)
def test_what_lacks_a_sign_of_it_or_has_another_one_is_not(text: str) -> None:
    assert not MARK.is_in(text)
    assert MARK.replaced(text, "(it was here)") is text


@requirement("notice:mark")
@pytest.mark.parametrize("signature", ["k3f9q-", "session-01abcdef"])
def test_the_mark_of_every_dialect_is_found(signature: str) -> None:
    mark = Mark(signature)
    for said in (signature, "\x1b(B".join(signature), "\u2060".join(signature), signature.replace("-", "\u2011")):
        assert mark.is_in(f"handle: {said}zzzz")
    assert not mark.is_in(signature[:-1])
    assert not Mark("").is_in("all that there is")


@requirement("notice:mark")
def test_a_text_that_hides_one_mark_behind_another_is_told_as_a_whole() -> None:
    said = "&amp;" * 3 + "[k3f9q]" + "".join(f"&{'amp;' * depth}#91;k3f9q]" for depth in range(20))
    assert not MARK.is_in(MARK.replaced(said, "(it was here)"))


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_reads_alike_reads_alike_again(text: str) -> None:
    plain = read_alike(text)
    assert read_alike(plain) == plain
    assert len(plain) <= 4 * len(text)


def test_each_letter_that_a_mark_may_have_stays_itself() -> None:
    every = string.printable + "".join(chr(ord(sign) + 0xFEE0) for sign in string.ascii_letters + string.digits)
    assert read_alike(every) == string.printable + string.ascii_letters + string.digits
    assert read_alike("\ufdfa") == " "
    assert read_alike("漢字 한글"[:3]) == "漢字 "


def test_accents_in_any_order_take_no_longer_than_others() -> None:
    """Their normal form sorts them one by one: of these it would take hours."""
    accents = "a" + "\u0301\u0327" * 500_000
    assert unicodedata.combining("\u0301") > unicodedata.combining("\u0327")
    assert not MARK.is_in(accents + "[k3f9")
    assert MARK.is_in(f"[k3{accents[1:]}f9q]")


@pytest.mark.in_full(one_in=3)
@pytest.mark.parametrize(
    "part", ["[", "[k3", "\x1b[", "\x1b]", "\x9d", "\x1b(", "a\b", "\b", "&", "&#1", "\\u", "%5B", "\u0301", "[\u3164"]
)
def test_no_text_takes_the_square_of_its_length(part: str) -> None:
    """A million signs: at the square of it this would never end."""
    text = part * (1_000_000 // len(part))
    assert not MARK.is_in(text)
    assert MARK.is_in(text + "] [k3f9q]")
