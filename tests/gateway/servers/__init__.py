"""Servers for the tests, in a folder of their own: the gateway watches the modules beside a server that a file names."""
