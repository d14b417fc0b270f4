"""The store: one contract that runs on every implementation, and what only the folder on disk promises."""
