"""Whose SQL runs next, where several sessions ask."""

import threading
import time

import pytest

from holdall.sql import worker
from holdall.sql.worker import SqlWorker
from holdall.store.deadline import Deadline
from holdall.values.errors import OutOfTime, WorkerFault

WAIT = 60.0  # generous: it is over as soon as it happens


def test_a_session_that_asks_all_the_time_keeps_no_other_from_its_turn() -> None:
    turns = worker.Turns()
    rooms = {name: turns.take(name, Deadline(WAIT)) for name in "abcd"}
    order: list[str] = []

    def ask(name: str) -> None:
        room = turns.take(name, Deadline(WAIT))
        order.append(name)
        turns.give(name, room)

    threads: list[threading.Thread] = []
    for name in ("a", "a", "b", "e"):
        threads.append(threading.Thread(target=ask, args=(name,)))
        threads[-1].start()
        while len(turns.waiting) < len(threads):
            time.sleep(0.001)
    with pytest.raises(OutOfTime):
        turns.take("f", Deadline(0.0))
    turns.give("a", rooms["a"])
    turns.give("b", rooms["b"])
    for one in threads:
        one.join(WAIT)
    assert order[0] == "e", "it had none yet"
    assert sorted(order) == ["a", "a", "b", "e"]
    assert turns.take_now("c") is None, "its query still runs"
    assert turns.take_now("a") is not None


def test_a_query_whose_turn_never_came_says_so_and_not_that_it_took_too_long() -> None:
    with SqlWorker() as shared:
        room = shared.turns.take("s", Deadline(WAIT))
        with pytest.raises(WorkerFault, match=r"other queries ran for 0 s.*it did not begin\. Try again\."):
            shared.of("s").ask({}, [], deadline=Deadline(0.0))
        cancelled = Deadline(WAIT)
        cancelled.cancel()
        with pytest.raises(OutOfTime):
            shared.of("s").ask({}, [], deadline=cancelled)
        shared.turns.give("s", room)
