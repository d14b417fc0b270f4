"""The same oversized outputs through other libraries and through Holdall: what is reached, found, and what it costs."""
