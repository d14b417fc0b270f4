"""The bytes of outputs as objects, through obstore: S3, Google Cloud, Azure, or a folder.

Each object has a name of its own that is never used again, is written once, whole, and is not changed. Credentials and
endpoints come from the environment that each provider has for it (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, …); no text of
the provider or of obstore leaves this module. Every request has a deadline.
"""

import contextlib
import itertools
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from holdall.store.addresses import shown_objects
from holdall.store.ids import new_uuid
from holdall.store.owners import other_writer, trusted_owners, way_to
from holdall.values.errors import BadSetting, MissingExtra, StoreFault, StoreFull, StoreUnsafe
from holdall.values.handles import is_uuid
from holdall.values.patterns import lazy_pattern

try:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PermissionDeniedError, UnauthenticatedError
    from obstore.store import from_url
except ImportError as missing:  # pragma: no cover
    raise MissingExtra("obstore", "fleet", "keeping outputs as objects") from missing

SMALL: Final = 8 * 1024 * 1024  # in one request; larger ones in parts of this size
REQUEST_SECONDS = 30
RETRY_SECONDS = 20
_AT_ONCE = 8
_MARK = "holdall-store"  # which store's objects these are: no other one may take them for left over
_PIECE = 1024 * 1024
_SCHEMES = ("s3", "s3a", "gs", "az", "adl", "azure", "abfs", "abfss", "file", "memory")
_STATUS = lazy_pattern(r"status(?: code)?:? ([1-5][0-9]{2})")


def checked(url: str, *, key: str = "objects") -> str:
    """The address of a place for objects. It is written into the database, so nothing secret may be in it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in _SCHEMES or not (parts.netloc or parts.path.strip("/") or parts.scheme == "memory"):
        rule = f"it must be the address of a bucket or folder ({', '.join(_SCHEMES[:4])}://…, file:///…)"
        raise BadSetting(key, shown_objects(url), rule)
    if parts.query or parts.fragment or parts.username or parts.password:
        raise BadSetting(
            key, shown_objects(url), "credentials and options go into the environment, not into the address"
        )
    return url


def name_of(object: str) -> str:
    return f"{object[:2]}/{object}"


def segment_of(object: str, number: int) -> str:
    return f"{name_of(object)}/{number:08}"


def object_in(name: str) -> str:
    """The object whose name this is, or that of one of its segments; empty for what others have put there."""
    object, number = name[3:39], name[40:]
    if not is_uuid(object):
        return ""
    return object if name == name_of(object) or (number.isdecimal() and name == segment_of(object, int(number))) else ""


class Stored(NamedTuple):
    """An object as the bucket lists it."""

    name: str
    size: int
    at: float  # when it was written, by the clock of the bucket


class Objects:
    """Safe to use from many threads."""

    def __init__(self, url: str) -> None:
        self.home = shown_objects(checked(url))
        scheme, path = urlsplit(url).scheme, unquote(urlsplit(url).path)
        options = {"mkdir": True} if scheme == "file" else {} if scheme == "memory" else _options()
        self._folder = path if scheme == "file" else ""
        with self._explained("opening the place for objects"):
            if scheme == "file":
                _check_folder(path)
            make: Any = from_url
            self._store: Any = make(url, **options)

    def put(self, name: str, data: bytes) -> None:
        """Under a name that nobody else has. A name that is taken is a try of our own that was not answered."""
        with self._explained("writing an object"):
            try:
                obstore.put(self._store, name, data, mode="create")
            except AlreadyExistsError:
                if obstore.head(self._store, name)["size"] != len(data):
                    raise StoreFault(f"an object of another length is in the way in {self.home}.") from None
            self._sync(name)

    def put_file(self, name: str, descriptor: int, length: int, data: bytes | None = None) -> None:
        """The first `length` bytes of an open file, or `data` where they were read already.

        Small ones go at once, large ones in parts, a few at a time.
        """
        if length <= SMALL:
            self.put(name, os.pread(descriptor, length, 0) if data is None else data)
            return
        with self._explained("writing an object"), os.fdopen(os.dup(descriptor), "rb") as file:
            file.seek(0)
            obstore.put(self._store, name, file, use_multipart=True, chunk_size=SMALL, max_concurrency=4)
            self._sync(name)

    def _sync(self, name: str) -> None:
        """A bucket answers when an object is durable; of a folder nobody has said so yet, neither file nor names."""
        while self._folder:
            descriptor = os.open(os.path.join(self._folder, name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if not name:
                break
            name = os.path.dirname(name)

    def get(self, name: str, start: int, end: int) -> bytes | None:
        """These bytes of it, or fewer where it is shorter; None if it is not there."""
        if start >= end:
            return b""
        with self._explained("reading an object"):
            try:
                pieces = obstore.get(self._store, name, options={"range": (start, end)}).stream(min_chunk_size=_PIECE)
                return _at_most(pieces, end - start)
            except FileNotFoundError:
                return None

    def length(self, name: str) -> int | None:
        with self._explained("looking at an object"):
            try:
                return obstore.head(self._store, name)["size"]
            except FileNotFoundError:
                return None

    def remove(self, names: Sequence[str]) -> None:
        """Those that are there."""
        for start in range(0, len(names), 1000):
            piece = list(names[start : start + 1000])
            with self._explained("removing objects"):
                try:
                    obstore.delete(self._store, piece)
                except FileNotFoundError:  # where each is a request of its own, it ends those behind it
                    for name in piece:
                        with contextlib.suppress(FileNotFoundError):
                            obstore.delete(self._store, name)

    def below(self, object: str) -> Iterator[str]:
        """The names of an object's segments, whoever wrote them."""
        with self._explained("listing objects"):
            found: Any = self._store.list(name_of(object), chunk_size=1000)
            for piece in found:
                yield from (one["path"] for one in piece)

    def everything(self) -> Iterator[Sequence[Stored]]:
        """All that is in the bucket but its mark, a thousand at a time."""
        with self._explained("listing objects"):
            found: Any = self._store.list(chunk_size=1000)
            for piece in found:
                yield [Stored(one["path"], one["size"], one["last_modified"].timestamp())
                       for one in piece if one["path"] != _MARK]  # fmt: skip

    def clock(self) -> float:
        """The time of the bucket, which dates its objects."""
        name = f"clock/{new_uuid()}"
        self.put(name, b"?")
        with self._explained("looking at an object"):
            now = obstore.head(self._store, name)["last_modified"].timestamp()
        self.remove([name])
        return now

    def claim(self, store: str) -> bool:
        """Whether the place is this store's: it is, where no other was here before."""
        with self._explained("opening the place for objects"):
            try:
                obstore.put(self._store, _MARK, store.encode(), mode="create")
            except AlreadyExistsError:
                return self.get(_MARK, 0, 100) == store.encode()
        return True

    def remove_object(self, object: str) -> None:
        """It, and all of its segments."""
        if self._folder:
            with self._explained("removing objects"):
                _remove_from_folder(os.path.join(self._folder, name_of(object)))
        else:
            self.remove([*self.below(object), name_of(object)])

    @contextlib.contextmanager
    def _explained(self, doing: str) -> Generator[None]:
        try:
            yield
        except (BaseError, OSError, ValueError) as problem:
            raise _fault(problem, doing, self.home) from None


def _check_folder(path: str) -> None:
    """Made if it is missing. Objects in it have the rights that the umask leaves: it is what keeps others out."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    about, owners = os.stat(path), trusted_owners()
    if about.st_uid not in owners:
        raise StoreUnsafe(f"the folder for objects {path} belongs to user {about.st_uid}. Name another place.")
    if about.st_mode & 0o007:
        raise StoreUnsafe(f"anybody can look into the folder for objects {path}. Close it with: chmod o-rwx {path}.")
    for folder, link in way_to(path):
        if other_writer(folder, os.stat(folder), owners) or (link and os.lstat(link).st_uid not in owners):
            raise StoreUnsafe(f"others can put another folder in the place of {path}: they can write to {folder}.")


def _remove_from_folder(path: str) -> None:
    """Segments are in a folder of that name, which is no object to the library; nor is what a killed writer had begun,
    which has a number behind its name."""
    for number in itertools.count():
        one = f"{path}#{number}" if number else path
        if os.path.isdir(one) and not os.path.islink(one):
            for name in os.listdir(one):
                with contextlib.suppress(FileNotFoundError):  # another sweep
                    os.unlink(os.path.join(one, name))
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(one)
            continue
        try:
            os.unlink(one)
        except FileNotFoundError:
            if number:
                return


def _at_most(pieces: Iterable[Any], length: int) -> bytes:
    """What answers for the bucket may send gigabytes in place of what was asked for."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) > length:
            raise StoreFault("the place for objects sends more than was asked for.")
    return bytes(found)


def _options() -> dict[str, Any]:
    """Deadlines. Options that are given here take the place of those in the environment, all but the one for HTTP."""
    client: dict[str, Any] = {"timeout": f"{REQUEST_SECONDS}s", "connect_timeout": "5s"}
    if any(os.environ.get(name, "").lower() in ("true", "1") for name in ("AWS_ALLOW_HTTP", "ALLOW_HTTP")):
        client["allow_http"] = True
    retries = {"max_retries": 6, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
    return {"client_options": client, "retry_config": retries}


def in_parallel(work: Any, pieces: Sequence[Any]) -> Iterator[Any]:
    """The results in their order. Requests wait for the network, so that a few at a time take as long as one."""
    if len(pieces) < 2:
        yield from map(work, pieces)
        return
    with ThreadPoolExecutor(min(_AT_ONCE, len(pieces)), "holdall-objects") as threads:
        yield from threads.map(work, pieces)


def _fault(problem: Exception, doing: str, home: str) -> StoreFault:
    text = str(problem)
    status = match[1] if (match := _STATUS.search(text)) else ""
    kind: type[StoreFault] = StoreFault
    if "169.254.169.254" in text:  # where machines of a cloud ask for theirs
        why = "there are no credentials for it in the environment"
    elif status == "507" or re.search("QuotaExceeded|InsufficientStorage|No space left", text):
        kind, why = StoreFull, "it is full: raise its quota or make room (`holdall gc`, `holdall rm`)"
    elif (
        isinstance(problem, PermissionDeniedError | UnauthenticatedError | PermissionError)
        or status in ("401", "403")
        or "AccessDenied" in text  # of one object among many, in an answer that is none of refusal
    ):
        why = "it refuses the credentials, or they may not do that"
    elif isinstance(problem, FileNotFoundError) or status == "404":
        why = "there is no such bucket or folder"
    elif "timed out" in text or "TimedOut" in text or "deadline" in text:
        why = f"it did not answer in {REQUEST_SECONDS} s"
    elif status in ("429", "503"):
        why = f"it wants fewer requests (status {status}), also when asked again. Try later"
    elif status:
        why = f"it answers with status {status}"
    elif re.search("Connect|dns error|error sending request|connection", text):
        why = "it cannot be reached, or it drops the connection"
    elif "builder error" in text:
        why = "its address is refused (an endpoint without TLS needs AWS_ALLOW_HTTP=true)"
    else:
        why = "the request failed"
    return kind(f"the objects in {home} failed while {doing}: {why}.")
