"""The gateway, as a process between real clients and real servers."""
