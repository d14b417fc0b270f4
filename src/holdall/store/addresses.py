"""Addresses of stores that are not folders, and how messages show them: never with a password."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from urllib.parse import SplitResult


def is_fleet(home: str) -> bool:
    """Whether it is a database, and no folder of this host."""
    return home.startswith(("postgresql://", "postgres://"))


def shown(home: str) -> str:
    """Where a store is: without a password, and without options, which may have one."""
    if not is_fleet(home):
        return home
    parts, port = _split(home), None
    if parts is not None:
        try:
            port = parts.port
        except ValueError:
            parts = None
    # A password that is not escaped may have any sign, and end up anywhere.
    if parts is None or "@" in parts.path + parts.query + parts.fragment or parts.netloc.count("@") > 1:
        return "postgresql://…"
    user = f"{parts.username}@" if parts.username else ""
    return f"postgresql://{user}{parts.hostname or ''}{f':{port}' if port else ''}{parts.path}"


def shown_objects(url: str) -> str:
    """Where objects are, the same way."""
    parts = _split(url)
    return "(not an address)" if parts is None else f"{parts.scheme}://{parts.hostname or ''}{parts.path}"


def _split(address: str) -> "SplitResult | None":
    try:
        from urllib.parse import urlsplit  # noqa: PLC0415 - it takes long to import, and most stores are folders

        return urlsplit(address)
    except ValueError:
        return None
