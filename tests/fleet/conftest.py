"""The fixtures `fleet_servers`, `fleet_place` and `own_servers`: see `tests.fleet.fixtures`, also for other folders."""

from tests.fleet.fixtures import fleet_place, fleet_servers, own_servers

__all__ = ["fleet_place", "fleet_servers", "own_servers"]
