"""The small runtime: agents as files, functions as tools, and the loop that brings a model and its tools together."""
