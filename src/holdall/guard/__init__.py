"""The guard of a model's window: what is too long is recognised, and made to fit; nothing is lost by it."""
