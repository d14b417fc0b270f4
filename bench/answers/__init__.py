"""`./dev bench answers`: what a model has seen of what a question needs, and what it cost, by each way to show it."""
