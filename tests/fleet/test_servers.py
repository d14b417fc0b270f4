"""The servers that the tests of the fleet run on: real, shared, and gone when the run is over."""

import contextlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.fleet import servers
from tests.fleet.fixtures import ROOT, Place
from tests.fleet.harness import FULL
from tests.fleet.servers import ADMIN, ROLE, Address, CommandFailed, Servers

pytestmark = pytest.mark.fleet
# Each starts servers that no other test uses, which costs more than most of the tests that need servers.
in_full = pytest.mark.skipif(not FULL, reason="only with `./dev test fleet`")


def test_each_test_gets_a_database_and_a_prefix_of_its_own(fleet_place: Place, fleet_servers: Address) -> None:
    assert fleet_servers.sql("select count(*) from pg_tables where schemaname = 'public'", fleet_place.database) == "0"
    assert fleet_place.home.endswith(f"/{fleet_place.database}")
    assert fleet_place.objects == f"s3://{fleet_servers.bucket}/{fleet_place.database}"
    assert os.environ["AWS_ENDPOINT_URL"] == fleet_servers.endpoint


def test_the_role_of_the_store_owns_its_databases_and_nothing_else(fleet_place: Place, fleet_servers: Address) -> None:
    rights = "select rolsuper or rolcreatedb or rolcreaterole or rolreplication or rolbypassrls from pg_roles"
    assert fleet_servers.sql(f"{rights} where rolname = '{ROLE}'") == "f"
    owner = "select pg_get_userbyid(datdba) from pg_database where datname"
    assert fleet_servers.sql(f"{owner} = '{fleet_place.database}'") == ROLE
    assert fleet_servers.sql(f"{owner} = 'postgres'") == ADMIN


def test_the_bucket_is_closed_to_who_has_no_key(fleet_servers: Address) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{fleet_servers.endpoint}/{fleet_servers.bucket}")
    with refused.value:
        assert refused.value.code == 403


@in_full  # by default seen by way of the outputs of a load: test_faults_servers
def test_servers_that_were_killed_come_back_with_what_they_had(own_servers: Servers) -> None:
    own_servers.address.make_database("before")
    own_servers.postgres.kill()
    with pytest.raises(CommandFailed, match="Connection refused"):
        own_servers.address.sql("select 1")
    own_servers.start_postgres()
    assert own_servers.address.sql("select count(*) from pg_database where datname = 'before'") == "1"
    own_servers.s3.kill()
    own_servers.s3.start()
    assert own_servers.s3.has_bucket(own_servers.bucket)


@in_full
def test_the_servers_end_with_the_process_that_they_are_held_for(tmp_path: Path) -> None:
    if problem := servers.missing():
        pytest.skip(problem)
    owner = subprocess.Popen(["sleep", "600"])
    file = tmp_path / "address.json"
    command = [sys.executable, "-m", "tests.fleet.servers", "hold", str(owner.pid), str(file)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as holder:
        try:
            while not file.exists():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    holder.wait(0.1)
                    pytest.fail(str(holder.communicate()))
            address = Address.from_json(file.read_text())
            assert address.sql("select 1") == "1"
            owner.send_signal(signal.SIGKILL)
            owner.wait()
            holder.wait(servers.STOP_SECONDS)
        finally:
            owner.kill()
            holder.kill()
    with pytest.raises(CommandFailed, match="Connection refused"):
        address.sql("select 1")
