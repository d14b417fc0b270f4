"""Where outputs live: the promise of a store, the folder that keeps it, and its upkeep.

The store is synchronous on purpose: disk work is blocking work, and the one place where threads meet an event loop
is the bag. Nothing here knows what a model sees.
"""
