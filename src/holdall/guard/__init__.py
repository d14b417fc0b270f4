"""The context window: conversations that are too long are recognised and made to fit, without losing anything."""
