"""Search in outputs: the pattern language, and the engine that runs it."""
