"""Agent frameworks with Holdall inside. Each has its own environment: `./dev test adapters NAME`."""
