"""What today's version does, written down: a store, a bundle, transcripts, help, `--json`, notices.

These tests hold a change of the inside to the behaviour of the outside. They import nothing from Holdall but its public
names and run the program, so that moving a module touches none of them. What they expect is in `data/`:

    .venv/bin/python -m tests.golden.update              write what the program does now, to be read in the diff
    .venv/bin/python -m tests.golden.update test_help.py     only one of them

The store and the bundle are never written anew: `make_store.py` says how they were made.
"""
