"""Real servers for the fleet: PostgreSQL, and a one-host Ceph with its S3 gateway, both as Debian packages them.

`started` starts both, on loopback and free ports, each in a temporary folder. They are children of the process that
asked and end with it, however it ends. `python -m tests.fleet.servers` starts them for a person, prints what to set,
and holds them until Ctrl-C.

Nothing here imports Holdall or the libraries of the fleet: tests, benchmarks and the demo build on it.
"""

import contextlib
import datetime
import functools
import glob
import hashlib
import hmac
import http.client
import json
import os
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("postgresql", "radosgw", "ceph-mon", "ceph-osd", "iproute2", "util-linux")
CEPH = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph-authtool", "monmaptool", "osdmaptool")
PROGRAMS = (*CEPH, "ip", "setpriv", "unshare", "nsenter")
INSTALL_SECONDS, START_SECONDS, STOP_SECONDS = 600, 120, 30
REGION = "us-east-1"
ROLE, ADMIN = "holdall", "admin"  # the first owns the databases that are made for it, and may do nothing else
LOOPBACK = ("127.0.0.1", "127.0.0.1")
MEMORY = "/dev/shm"
_STILL_THERE = "pre-existing shared memory block"


class ServersMissing(Exception):
    """What cannot be started here, and what to install."""


class CommandFailed(Exception):
    """A program that should have ended well."""


class Address(NamedTuple):
    """All that a host needs to know of the servers. `as_json` and back, for other processes."""

    database_host: str
    database_port: int
    password: str
    admin_password: str
    endpoint: str
    access_key: str
    secret_key: str
    bucket: str

    def home(self, database: str) -> str:
        return f"postgresql://{ROLE}:{self.password}@{self.database_host}:{self.database_port}/{database}"

    def objects(self, prefix: str = "") -> str:
        return f"s3://{self.bucket}/{prefix}".rstrip("/")

    def make_role(self) -> None:
        self.sql(f"create role {ROLE} login password '{self.password}'")

    def make_database(self, name: str) -> str:
        """A new database, and the home in it."""
        self.sql(f'create database "{name}" owner {ROLE}')
        return self.home(name)

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What psql prints, as the superuser."""
        place = {"PGHOST": self.database_host, "PGPORT": str(self.database_port), "PGDATABASE": database}
        return _run(
            ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement],
            env={**os.environ, **place, "PGUSER": ADMIN, "PGPASSWORD": self.admin_password},
        ).strip()

    def environment(self) -> dict[str, str]:
        """What libraries for S3 read: where the bucket is, and the keys to it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }

    def as_json(self) -> str:
        return json.dumps(self._asdict())

    @staticmethod
    def from_json(text: str) -> "Address":
        return Address(**json.loads(text))


@functools.cache
def postgres_programs() -> str:
    """The folder with the server's programs, which Debian keeps off the path; empty where there is none."""
    folders = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    on_path = os.path.dirname(shutil.which("initdb") or "")
    return next((folder for folder in (*reversed(folders), on_path) if os.path.exists(f"{folder}/initdb")), "")


def missing() -> str:
    """What has to be installed first, as a sentence; empty where everything is there."""
    absent = [name for name in PROGRAMS if shutil.which(name) is None]
    if not postgres_programs():
        absent.insert(0, "initdb")
    if not absent:
        return ""
    line = f"apt-get install --no-install-recommends {' '.join(PACKAGES)}"
    return f"{', '.join(absent)} not found; as root, on Debian or Ubuntu: {line}"


def install() -> None:
    """Install what is missing where we are root and have apt-get; raises ServersMissing where it cannot be had."""
    if missing() and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"servers: installing {' '.join(PACKAGES)}", file=sys.stderr, flush=True)
        get = ["apt-get", "-qq"]
        for command in ([*get, "update"], [*get, "-y", "install", "--no-install-recommends", *PACKAGES]):
            subprocess.run(
                command,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=INSTALL_SECONDS,
                check=False,
            )
        postgres_programs.cache_clear()
    if problem := missing():
        raise ServersMissing(problem)


class Daemon:
    """One server process: started, killed, and started again on the same folder and port."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, user: str = "", inside: Sequence[str] = ()
    ) -> None:
        self.name = name
        # The kernel ends the server when the process that started it is gone, even by kill -9.
        self._command = [*inside, "setpriv", "--pdeathsig", "KILL", *_as(user), *command]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None, f"{self.name} runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} does not run"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self.end(signal.SIGKILL)

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, how)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def until(self, is_up: Callable[[], bool]) -> None:
        """Wait until it answers. Raises with the end of its log where it does not."""
        deadline = time.monotonic() + START_SECONDS
        while not is_up():
            if not self.is_running or time.monotonic() > deadline:
                raise AssertionError(f"{self.name} did not start: {self.log_end()}")
            time.sleep(0.05)

    def log_end(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


class Postgres:
    """A PostgreSQL of our own. `durable` is how users run it; without, a crash of the machine may lose data."""

    def __init__(self, folder: Path, host: str, *, durable: bool = False, inside: Sequence[str] = ()) -> None:
        self.host, self.port = host, free_port()
        self.password, self.admin_password = secrets.token_hex(12), secrets.token_hex(12)
        self._folder = folder
        self._user = _server_user()
        _hand_over(folder, self._user)
        self._initialise()
        options = {
            "listen_addresses": host,
            "port": str(self.port),
            "unix_socket_directories": str(folder),
            "max_connections": "300",
            **({} if durable else {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}),
        }
        flags = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        command = [f"{postgres_programs()}/postgres", "-D", str(folder / "data"), *flags]
        self._daemon = Daemon("PostgreSQL", command, folder / "log", user=self._user, inside=inside)

    def start(self, address: Address) -> None:
        self._daemon.start()
        # Processes of one that was killed may still be ending: until then the new one refuses to start.
        deadline = time.monotonic() + START_SECONDS
        while not _answers(address) and time.monotonic() < deadline:
            if not self._daemon.is_running and _STILL_THERE in self._daemon.log_end()[-500:]:
                self._daemon.end()
                self._daemon.start()
            time.sleep(0.05)
        self._daemon.until(lambda: _answers(address))

    def kill(self) -> None:
        """kill -9 of the server and all of its processes."""
        self._daemon.kill()

    def stop(self) -> None:
        """As an administrator stops it: open connections are ended."""
        self._daemon.end(signal.SIGINT)

    @property
    def is_running(self) -> bool:
        return self._daemon.is_running

    def _initialise(self) -> None:
        secret = self._folder / "password"
        secret.write_text(self.admin_password)
        _hand_over(secret, self._user)
        data = self._folder / "data"
        how = ["-A", "scram-sha-256", "-U", ADMIN, "--pwfile", str(secret), "--no-sync", "--encoding=UTF8"]
        plain = {**os.environ, "LC_ALL": "C.UTF-8"}
        _run([f"{postgres_programs()}/initdb", "-D", str(data), *how], user=self._user, env=plain)
        (data / "pg_hba.conf").write_text("host all all all scram-sha-256\n")


class Ceph:
    """Monitor, object daemon and S3 gateway. No manager: nothing here asks for its figures.

    `durable` keeps the objects in a file, so that they survive a kill of the object daemon; without, in its memory.
    """

    def __init__(self, folder: Path, host: str, *, durable: bool = False, inside: Sequence[str] = ()) -> None:
        self.host, self.port = host, free_port()
        self.access_key, self.secret_key = secrets.token_hex(10), secrets.token_hex(20)
        self._folder, self._inside = folder, inside
        self._config(durable=durable)
        flags = ["--conf", str(folder / "ceph.conf")]
        self._flags = flags
        commands = {
            "monitor": ["ceph-mon", "-i", "a", "-f"],
            "objects": ["ceph-osd", "-i", "0", "-f"],
            "gateway": ["radosgw", "-n", "client.rgw", "-f"],
        }
        self._daemons = {
            name: Daemon(f"Ceph's {name}", [*command, *flags], folder / f"{name}.log", inside=inside)
            for name, command in commands.items()
        }
        self._initialise()

    def start(self) -> None:
        """All of its processes that do not run."""
        for name in ("monitor", "objects"):
            if not self._daemons[name].is_running:
                self._daemons[name].start()
        if not self._has_user():
            self._make_user()
        gateway = self._daemons["gateway"]
        if not gateway.is_running:
            gateway.start()
        gateway.until(lambda: self._status("GET", "/") == 200)

    def kill(self, *names: str) -> None:
        """kill -9 of these processes, else of all: `monitor`, `objects`, `gateway`."""
        for name in names or tuple(self._daemons):
            self._daemons[name].kill()

    def stop(self) -> None:
        for daemon in reversed(self._daemons.values()):
            daemon.kill()  # nothing of it is wanted afterwards, and the object daemon takes seconds to end well

    @property
    def endpoint(self) -> str:
        return f"http://{self.host}:{self.port}"

    def make_bucket(self, name: str) -> None:
        assert self._status("PUT", f"/{name}") == 200, "the bucket was refused"

    def has_bucket(self, name: str) -> bool:
        return self._status("HEAD", f"/{name}") == 200

    def _config(self, *, durable: bool) -> None:
        folder, monitor = self._folder, free_port()
        self._monitor = f"[v2:127.0.0.1:{monitor}]"
        self._id = _run(["cat", "/proc/sys/kernel/random/uuid"]).strip()
        values: dict[str, dict[str, object]] = {
            "global": {
                "fsid": self._id,
                "mon host": f"v2:127.0.0.1:{monitor}",
                "mon initial members": "a",
                "public network": "127.0.0.0/8",
                "ms bind msgr1": "false",
                "auth allow insecure global id reclaim": "false",
                "osd pool default size": 1,
                "osd pool default min size": 1,
                "osd pool default pg num": 1,
                "osd pool default pg autoscale mode": "off",
                "mon allow pool size one": "true",
                "mon data avail crit": 0,
                "mon tick interval": 1,
                # Each of the first pools waits for several rounds of the monitor: with a second each, 12 s in all.
                "paxos propose interval": 0.02,
                "paxos min wait": 0.01,
                "run dir": folder,
                "log file": folder / "$name.log",
                "log to stderr": "false",
                "pid file": "",
                "admin socket": "",
                "keyring": folder / "keyring",
            },
            "mon.a": {"mon data": folder / "mon"},
            "osd.0": {
                "osd data": folder / "osd",
                "osd objectstore": "bluestore" if durable else "memstore",
                "memstore device bytes": 8 << 30,
                "bluestore block size": 8 << 30,
                "osd memory target": 1 << 30,
            },
            "client.rgw": {
                "rgw frontends": f"beast endpoint={self.host}:{self.port}",
                "rgw data": folder / "rgw",
                "rgw run sync thread": "false",
            },
        }
        lines = [
            line
            for section, pairs in values.items()
            for line in (f"[{section}]", *(f"{name} = {value}" for name, value in pairs.items()))
        ]
        (folder / "ceph.conf").write_text("\n".join(lines) + "\n")
        for name in ("mon", "osd", "rgw"):
            (folder / name).mkdir()

    def _initialise(self) -> None:
        keyring, monmap, osdmap = (str(self._folder / name) for name in ("keyring", "monmap", "osdmap"))
        everything = {"mon": "allow *", "osd": "allow *"}
        rights: dict[str, dict[str, str]] = {
            "mon.": {"mon": "allow *"},
            "osd.0": {"mon": "allow profile osd", "osd": "allow *"},
            "client.rgw": everything,
        }
        for number, (name, caps) in enumerate(rights.items()):
            flags = [part for pair in caps.items() for part in ("--cap", *pair)]
            _run(["ceph-authtool", *(["-C"] if number == 0 else []), keyring, "--gen-key", "-n", name, *flags])
        _run(["monmaptool", "--create", "--fsid", self._id, "--addv", "a", self._monitor, monmap])
        # The object daemon is in the first map: otherwise two calls of `ceph`, which takes a second to import itself.
        _run(["osdmaptool", "--createsimple", "1", osdmap])
        maps = ["--monmap", monmap, "--osdmap", osdmap, "--keyring", keyring]
        _run(["ceph-mon", "-i", "a", "--mkfs", *maps, *self._flags])
        _run(["ceph-osd", "-i", "0", "--mkfs", "--no-mon-config", *self._flags])

    def _has_user(self) -> bool:
        return (self._folder / "has-user").exists()

    def _make_user(self) -> None:
        keys = [f"--access-key={self.access_key}", f"--secret-key={self.secret_key}"]
        user = ["user", "create", "--uid=holdall", "--display-name=holdall", *keys]
        _run([*self._inside, "radosgw-admin", "-n", "client.rgw", *self._flags, *user])
        (self._folder / "has-user").touch()

    def _status(self, method: str, path: str) -> int:
        """What the gateway answers to a signed request; 0 where there is no answer."""
        try:
            return _signed(self, method, path)
        except (OSError, http.client.HTTPException):
            return 0


class Servers:
    """Both servers, running."""

    def __init__(self, folder: Path, *, at: tuple[str, str] = LOOPBACK, durable: bool, inside: Sequence[str]) -> None:
        for name in ("postgres", "ceph"):
            (folder / name).mkdir()
        self.postgres = Postgres(folder / "postgres", at[0], durable=durable, inside=inside)
        self.s3 = Ceph(folder / "ceph", at[1], durable=durable, inside=inside)
        self.bucket = "holdall-" + secrets.token_hex(4)

    def start(self) -> None:
        self.start_postgres()
        self.address.make_role()
        self.s3.start()
        self.s3.make_bucket(self.bucket)

    def start_postgres(self) -> None:
        self.postgres.start(self.address)

    def stop(self) -> None:
        self.postgres.stop()
        self.s3.stop()

    @property
    def address(self) -> Address:
        database, objects = self.postgres, self.s3
        passwords, keys = (database.password, database.admin_password), (objects.access_key, objects.secret_key)
        return Address(database.host, database.port, *passwords, objects.endpoint, *keys, self.bucket)


@contextlib.contextmanager
def started(*, at: tuple[str, str] = LOOPBACK, durable: bool = False, inside: Sequence[str] = ()) -> Generator[Servers]:
    """Both servers, in a folder that is gone afterwards. Raises ServersMissing where they are not installed.

    `inside` is what to put before their commands, to run them in a network namespace that has the addresses `at`, of
    the database and of the bucket.
    """
    if problem := missing():
        raise ServersMissing(problem)
    with tempfile.TemporaryDirectory(prefix="holdall-servers-", dir=_roomy(), ignore_cleanup_errors=True) as name:
        os.chmod(name, 0o711)  # the database runs as another user
        servers = Servers(Path(name), at=at, durable=durable, inside=inside)
        try:
            servers.start()
            yield servers
        finally:
            servers.stop()


def _answers(address: Address) -> bool:
    try:
        return bool(address.sql("select 1"))
    except CommandFailed:
        return False


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def _roomy() -> str | None:
    """Memory where there is enough of it: a server that syncs need not wait for a disk."""
    if not os.access(MEMORY, os.W_OK):
        return None
    return MEMORY if shutil.disk_usage(MEMORY).free > 4 << 30 else None


def _server_user() -> str:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return ""
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _hand_over(path: Path, user: str) -> None:
    if user:
        shutil.chown(path, user)


def _as(user: str) -> list[str]:
    if not user:
        return []
    return ["--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups"]


def _wrapped(user: str) -> list[str]:
    return ["setpriv", *_as(user)] if user else []


def _run(command: Sequence[str], *, user: str = "", env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [*_wrapped(user), *command],
        env=env,
        capture_output=True,
        text=True,
        cwd="/",
        timeout=START_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise CommandFailed(f"{' '.join(command)} failed: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _signed(s3: Ceph, method: str, path: str) -> int:
    """The status of one request without a body, signed as S3 wants it (signature version 4)."""
    now = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    host, empty = f"{s3.host}:{s3.port}", hashlib.sha256(b"").hexdigest()
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = f"{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{now}\n\n{names}\n{empty}"
    scope = f"{now[:8]}/{REGION}/s3/aws4_request"
    wanted = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{s3.secret_key}".encode()
    for part in (*scope.split("/"), wanted):
        key = hmac.digest(key, part.encode(), "sha256")
    given = f"AWS4-HMAC-SHA256 Credential={s3.access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    connection = http.client.HTTPConnection(s3.host, s3.port, timeout=START_SECONDS)
    with contextlib.closing(connection):
        headers = {"x-amz-date": now, "x-amz-content-sha256": empty, "Authorization": given}
        connection.request(method, path, headers=headers)
        with connection.getresponse() as answer:
            return answer.status


def hold(owner: int, file: Path) -> None:
    """Start the servers, write their address or what is missing to `file`, and hold them until process `owner` ends."""
    watched = os.pidfd_open(owner)
    try:
        with started() as servers:
            _publish(file, servers.address.as_json())
            select.select([watched], [], [])
    except Exception as problem:
        _publish(file, json.dumps(f"{type(problem).__name__}: {problem}"))
        raise


def _publish(file: Path, text: str) -> None:
    """All of it at once: others wait for the file."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


def main(arguments: Sequence[str]) -> int:
    """`install`, `hold PID FILE`, or nothing: for a person, until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # asked to end, it cleans up as after Ctrl-C
    try:
        if arguments[:1] == ["hold"]:
            hold(int(arguments[1]), Path(arguments[2]))
            return 0
        install()
        if arguments != ["install"]:
            _show()
    except ServersMissing as problem:
        print(f"servers: {problem}", file=sys.stderr)
        return 2
    return 0


def _show() -> None:
    with started(durable=True) as servers:
        address = servers.address
        given = {"HOLDALL_HOME": address.make_database("fleet"), "HOLDALL_OBJECTS": address.objects("fleet")}
        for name, value in {**given, **address.environment()}.items():
            print(f"export {name}='{value}'", flush=True)
        print("# Until Ctrl-C.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
