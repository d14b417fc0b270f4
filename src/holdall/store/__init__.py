"""Stores: the protocol, the folder store, the memory store, bundles, and maintenance.

The store is synchronous on purpose: disk work is blocking work, and the one place where threads meet an event loop
is the bag. Nothing here knows what a model sees.
"""
