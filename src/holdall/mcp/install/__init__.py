"""Putting a client's servers behind the gateway, in the client's own configuration, and taking that back."""
