"""One file for each job of the speed benchmark: a coroutine from the lab to what it measured."""
