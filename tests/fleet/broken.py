"""Stores of the fleet with one deliberate mistake each. A suite that does not notice them proves nothing."""

import time
from collections.abc import Callable
from typing import Any

from holdall.store.fleet import pulse, upkeep
from holdall.store.fleet.objects import Objects, object_in
from holdall.store.fleet.store import FleetStore


def commit_before_object() -> None:
    """Commits the record, and only then writes the object that it names."""
    waiting: list[tuple[Any, ...]] = []
    publish: Callable[..., Any] = FleetStore.__dict__["_publish"]
    put_file = Objects.put_file

    def remember(self: Objects, *args: Any) -> None:
        waiting.append((self, *args))

    def publish_first(self: FleetStore, *args: Any) -> Any:
        done = publish(self, *args)
        while waiting:
            put_file(*waiting.pop())
        return done

    setattr(Objects, "put_file", remember)  # noqa: B010 - as below
    setattr(FleetStore, "_publish", publish_first)  # noqa: B010 - its name is its own


def lease_by_host_clock() -> None:
    """Renews its lease with the time that this host believes it is."""

    renew = pulse.__dict__["_RENEW"].replace("(id, principal, host)", "(id, principal, host, renewed)")
    renew = renew.replace("%(host)s)", "%(host)s, to_timestamp(%(now)s))").replace(
        "clock_timestamp()", "to_timestamp(%(now)s)"
    )
    rows = pulse.Database.rows

    def rows_with_time(self: Any, doing: str, statement: Any, values: Any, **options: Any) -> Any:
        values = {**values, "now": time.time()} if statement is renew else values
        return rows(self, doing, statement, values, **options)

    pulse.__dict__["_RENEW"] = renew
    pulse.Database.rows = rows_with_time


def sweep_without_intent() -> None:
    """Removes every object that no output names, whatever a writer intends."""

    def sweep_everything(store: Any, *_: Any, **__: Any) -> tuple[list[str], int]:
        rows = store.database.rows("sweeping", "SELECT object::text FROM holdall_outputs WHERE object IS NOT NULL", {})
        named = {row[0] for row in rows}
        found: Any = store.objects._store.list()
        every = [one["path"] for piece in found for one in piece]
        stray = [path for path in every if (object := object_in(path)) and object not in named]
        store.objects.remove(stray)
        return stray, 0

    upkeep.__dict__["_sweep_intents"] = sweep_everything


VARIANTS: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "commit before object": commit_before_object,
    "lease by host clock": lease_by_host_clock,
    "sweep without intent": sweep_without_intent,
}
