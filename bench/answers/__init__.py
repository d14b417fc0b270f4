"""`./dev bench answers`: how much of what a question needs a model has seen, and what that cost, by each way to show it."""
