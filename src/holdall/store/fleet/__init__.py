"""One store for many hosts: objects hold the bytes, PostgreSQL holds what is true about them. See `fleet.store`."""
